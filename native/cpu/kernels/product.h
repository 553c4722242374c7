// Products of matrices, tile by tile, and how their operands are packed into panels.
//
// A panel is some lines of an operand, rows of the left one or columns of the right one, with the numbers of all lines
// at one depth side by side. Sums are accumulated in float32, in the order of the depth: fused multiply-adds at every
// level that has them.
//
// 8-bit integers are multiplied in the same way. A number of a panel is then a word: the integers at two depths, less
// their zero point, in 16 bits each; the sums are integers of 32 bits, modulo 2^32. Where this header says float, such
// words lie in the floats' memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/kernels/kernel.h"

namespace dmlgraph::cpu {

// c = a · b, or c += a · b, of a panel of rows and a panel of columns; steps in floats.
struct TileCall {
    const float* a;  // a panel with exactly the rows of the tile
    const float* b;
    std::int64_t b_step;  // from depth to depth
    std::int64_t depth;
    float* c;
    std::int64_t c_step;  // from row to row
    bool adds;
};

// The same for few rows and many columns, whole vectors, which are read row by row from where they lie.
struct StreamCall {
    const float* a;  // a panel with exactly these rows
    int rows;        // at most `most_streamed_rows`
    const float* b;
    std::int64_t b_step;
    std::int64_t depth;
    float* c;
    std::int64_t c_step;
    std::int64_t columns;  // at most `most_streamed_columns`
    bool adds;
};

inline constexpr int most_streamed_rows = 4;
inline constexpr std::int64_t most_streamed_columns = 512;

using TileKernel = void (*)(const TileCall& call) noexcept;

// Lines of an operand in memory; steps in bytes.
struct PanelCall {
    float* out;
    std::int64_t width;  // the numbers of the panel at one depth; those beyond the lines are zero
    const std::byte* in;
    std::int64_t line_step;
    std::int64_t depth_step;
    std::int64_t lines;
    std::int64_t depth;
};

// Elements that lie some bytes apart, packed one after the other as floats.
using LineKernel = void (*)(float* out, const std::byte* in, std::int64_t step, std::int64_t count) noexcept;

// out[i] = the sum over the taps t of weights[t] · in[offsets[t] + i], in the order of the taps. Reads and writes beyond
// `count` up to a whole vector.
struct TapsCall {
    float* out;
    const float* in;
    const std::int64_t* offsets;
    const float* weights;
    std::int64_t taps;
    std::int64_t count;
};

struct Tiles {
    int lanes;    // floats in a vector
    int rows;     // the most of a tile
    int vectors;  // the most of a row of a tile
    const TileKernel* kernels;  // kernels[(rows − 1) · vectors + vectors of a row − 1]

    TileKernel tile(int height, int width) const { return kernels[(height - 1) * vectors + width - 1]; }
};

// Words of the integers `first[i · step]` and `second[i · step]`, less zeros[i]. Without `second` their upper halves are 0.
struct PairsCall {
    std::uint32_t* out;
    const std::byte* first;
    const std::byte* second;
    std::int64_t step;
    std::int64_t count;
    const std::int16_t* zeros;
};

using PairsKernel = void (*)(const PairsCall& call) noexcept;

struct IntegerKernels {
    Tiles tiles;
    PairsKernel pairs;           // of int8
    PairsKernel unsigned_pairs;  // of uint8
};

struct ProductKernels : Tiles {
    void (*pack)(const PanelCall& call) noexcept;       // float32
    void (*pack_half)(const PanelCall& call) noexcept;  // float16
    LineKernel line;       // of float32
    LineKernel half_line;  // of float16
    LineKernel byte_line;  // of int8
    LineKernel unsigned_byte_line;
    void (*taps)(const TapsCall& call) noexcept;
    void (*stream)(const StreamCall& call) noexcept;
    IntegerKernels integers;

    LineKernel line_of(DataType type) const {
        switch (type) {
            case DataType::float16: return half_line;
            case DataType::int8: return byte_line;
            case DataType::uint8: return unsigned_byte_line;
            default: return line;
        }
    }
};

const ProductKernels& product_kernels(Level level) noexcept;
// Those that every processor of the level can run.
const IntegerKernels& common_integer_kernels(Level level) noexcept;
// For the level that `find_kernel` uses.
const ProductKernels& product_kernels() noexcept;

}  // namespace dmlgraph::cpu
