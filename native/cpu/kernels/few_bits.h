// Weights of 4 or 8 bits as floats, and 4-bit integers as bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dmlgraph::cpu {

// out[i] = (weights[i] − zeros[b]) · scales[b], both rounded, for the blocks b of `block` weights each; the last one
// may have fewer. Two weights of 4 bits share a byte, the first in the lower half.
struct BlocksCall {
    float* out;
    const std::uint8_t* in;
    std::int64_t count;
    std::int64_t block;  // of an even number, if weights of 4 bits have several
    const float* scales;
    const float* zeros;
};

using BlocksKernel = void (*)(const BlocksCall& call) noexcept;

inline constexpr int nibble_lines = 16;  // of a panel of nibbles, at every level
inline constexpr int nibble_depths = 8;  // of a word of them
inline constexpr int most_nibble_rows = 8;

// Weights of 16 lines, from a depth on, with blocks along the lines: (nibble − zero) · scale. A word has 8 depths of a
// line, the first in its lowest bits; the words of all lines at the same depths lie side by side, and so do scales and
// zero points.
struct NibblePanel {
    const std::uint32_t* words;
    const float* scales;
    const std::uint8_t* zeros;  // null: each is `zero`
    float zero;
    std::int64_t depth;  // as the block a multiple of 8; the last block may have fewer depths
    std::int64_t block;
};

// sums = a · b for up to `most_nibble_rows` rows. The products of a block are added up and then multiplied by its
// scale.
struct NibbleRowsCall {
    NibblePanel b;
    const float* a;
    std::int64_t a_step;  // from row to row
    int rows;
    float* sums;
    std::int64_t step;
};

// The same for rows of 8-bit integers, which have a scale for each block. Sums within a block are exact.
struct NibbleBytesCall {
    NibblePanel b;
    const std::uint32_t* a;   // as `IntegerKernels::nibble_words` makes them
    std::int64_t a_step;      // from row to row
    const float* a_scales;    // by block, …
    const float* a_sums;      // … of the integers, all with the other sign
    std::int64_t block_step;  // of both from row to row
    int rows;
    float* sums;
    std::int64_t step;
};

// out[k · step + l] = the weight of line l at depth k, rounded twice as in BlocksCall.
struct NibblePanelCall {
    NibblePanel b;
    float* out;
    std::int64_t step;
};

struct FewBitsKernels {
    BlocksKernel uint4;
    BlocksKernel int4;
    BlocksKernel uint8;
    BlocksKernel int8;
    // Bytes of both elements of each pair, with their sign if it is 8, not 0.
    void (*spread)(std::uint8_t* out, const std::uint8_t* in, std::int64_t pairs, std::uint8_t sign) noexcept;
    void (*nibble_rows)(const NibbleRowsCall& call) noexcept;
    void (*nibble_panel)(const NibblePanelCall& call) noexcept;
};

}  // namespace dmlgraph::cpu
