// A channel that is read where it lies by square windows.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dmlgraph::cpu {

struct Picture {
    const std::byte* in;    // elements side by side
    std::int64_t row_step;  // in bytes
    std::int64_t height;
    std::int64_t width;
    std::int64_t top;            // the first row of the first window
    std::int64_t left;           // … and its first column
    std::int64_t stride_down;    // from window to window: rows
    std::int64_t stride_across;  // … and columns
    std::int64_t taps;           // of a row
};

}  // namespace dmlgraph::cpu
