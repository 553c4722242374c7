// A region that only copies, where what lies side by side in both tensors is short: transpositions, channels
// and blocks of pixels, repeated and joined rows. A block of it would be some elements, by way of a register.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cpu/kernels/interleave.h"
#include "cpu/region/region.h"
#include "cpu/runtime/step.h"

namespace dmlgraph::cpu {

// It goes unit by unit: some rows, each of some elements.
struct Copying {
    // Copies so many rows of so much of their length.
    void (*copy)(const Copying&, std::byte* out, const std::byte* in, std::int64_t rows, std::int64_t length) = nullptr;
    int item = 1;  // bytes of an element
    std::int64_t rows = 1;
    std::int64_t row_in = 0;  // bytes to the next row
    std::int64_t row_out = 0;
    std::int64_t length = 1;   // of a row
    std::int64_t in_step = 0;  // bytes along it
    std::int64_t out_step = 0;
    std::int64_t some_rows = 1;  // of a unit at most
    std::int64_t some_length = 1;
    Interleaving interleave = nullptr;  // from a row of pixels to lines of their channels, or the reverse
    std::int64_t apart = 0;             // elements from line to line
    std::vector<std::int32_t> in, out;  // a row's elements, in bytes; `out` is empty if they are written side by side
    // The dimensions around rows.
    int rank = 0;
    Sizes sizes{};
    Sizes in_strides{};
    Sizes out_strides{};
    double cost = 0;  // bytes

    static constexpr std::size_t scratch_bytes = 0;
    static constexpr std::size_t shared_state_bytes() { return 0; }
};

// `strides`: of the load and the store, in bytes. No value: the region does more, or is faster block by block.
std::optional<Copying> make_copying(const Region& region, const std::vector<Sizes>& strides);

void run(const Copying& copying, const Region& region, RunContext& context, const RegionMemory& memory);

}  // namespace dmlgraph::cpu
