// A region that only copies, where what lies side by side in both tensors is short: transpositions, channels
// and blocks of pixels, repeated and joined rows. A block of it would be some elements, by way of a register.
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/runtime/step.h"
#include "cpu/tensor/layout.h"

namespace dmlgraph::cpu {

struct Copying {
    // A unit is `rows` times what the kind says.
    enum class Kind : std::uint8_t {
        none,   // the region does not only copy, or is faster block by block
        lines,  // `length` bytes that lie side by side in both tensors
        split,  // `length` groups of `thin` elements side by side, which become lines `apart` bytes apart
        merge,  // the reverse
        turn,   // lines of `length` elements, which were `apart` bytes apart: a transposition
        table   // elements at the offsets of the tables
    } kind = Kind::none;
    int item = 1;  // bytes of an element
    int thin = 1;
    std::int64_t length = 1;
    std::int64_t apart = 0;
    std::int64_t rows = 1;
    std::int64_t row_in = 0;  // bytes to the next row
    std::int64_t row_out = 0;
    std::vector<std::int32_t> in, out;  // offsets in bytes; `out` is empty if elements are written side by side
    // The dimensions around units.
    int rank = 0;
    Sizes sizes{};
    Sizes in_strides{};
    Sizes out_strides{};
    // Units are cut into so many rows and elements of `length`.
    std::int64_t some_rows = 1;
    std::int64_t some_length = 1;
};

// Strides in bytes.
Copying make_copying(int rank, const Sizes& sizes, const Sizes& in, const Sizes& out, int item);

void run(const Copying& copying, RunContext& context, double cost, std::byte* out, const std::byte* in);

}  // namespace dmlgraph::cpu
