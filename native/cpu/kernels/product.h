// Products of matrices, tile by tile, and how their operands are packed into panels.
//
// A panel is some lines of an operand, rows of the left one or columns of the right one, with the numbers of all lines
// at one depth side by side. Sums are accumulated in float32, in the order of the depth: fused multiply-adds at every
// level that has them.
//
// 8-bit integers are multiplied in the same way. A number of a panel is then a word of 32 bits: the integers at two or
// four depths, as the level multiplies them; the sums are integers of 32 bits, modulo 2^32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/kernels/kernel.h"
#include "cpu/kernels/numbers.h"
#include "cpu/kernels/sum_ending.h"

namespace dmlgraph::cpu {

struct NibbleBytesCall;

inline constexpr int most_rows_of_tile = 16;

// Words of rows besides those of a panel: each meets the columns' words at a depth of its own (see
// products/small_words.h).
struct RestDepths {
    const std::uint32_t* words = nullptr;   // one for each row of the tile, `count` times
    const std::uint16_t* depths = nullptr;  // of the columns' panel; as many
    std::int64_t count = 0;
};

// sums = a · b, or sums += a · b, of rows and a panel of columns; steps in numbers. The rows are a panel with exactly
// those of the tile, or lie where they were: side by side, or apart for kernels of such rows.
struct TileCall {
    NumbersAt a;
    std::int64_t a_row;    // from row to row, of rows that lie apart
    std::int64_t a_depth;  // from depth to depth
    NumbersAt b;
    std::int64_t b_step;   // from depth to depth
    std::int64_t b_panel;  // from panel to panel, for kernels of several
    std::int64_t depth;
    NumbersTo sums;
    std::int64_t step;  // from row to row
    bool adds;
    NumbersAt next{};                     // numbers that are read soon: they come into the caches, …
    std::int64_t next_step = 0;           // … so many at each depth
    const SumEnding* ending = nullptr;    // null: nothing follows
    std::int64_t column = 0;              // of the first sum, in the ending's lines
    std::int64_t columns = every_column;  // that there are: vectors may reach beyond them, but store nothing there
    RestDepths rests{};                   // of rows that are small words
};

// c = a · b, or c += a · b, for few rows and many columns, whole vectors, which are read row by row from where they
// lie.
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

// The same for columns whose numbers lie one after the other, each at some place. Sum s of 16 takes the depths s, s +
// 16, …; these sums are then added: s + 8 to s, s + 4, s + 2 and s + 1.
struct LinesCall {
    const float* a;  // row by row
    std::int64_t a_step;
    int rows;  // at most `most_streamed_rows`
    const std::byte* b;
    std::int64_t line_step;  // from column to column, in bytes
    std::int64_t depth;
    float* c;
    std::int64_t c_step;
    std::int64_t columns;
    bool adds;
};

using LinesKernel = void (*)(const LinesCall& call) noexcept;

inline constexpr int most_streamed_rows = 4;
inline constexpr std::int64_t most_streamed_columns = 512;

using TileKernel = void (*)(const TileCall& call) noexcept;

// Lines of an operand in memory; steps in bytes.
struct PanelCall {
    NumbersTo out;
    std::int64_t width;  // the numbers of the panel at one depth; those beyond the lines are zero
    const std::byte* in;
    std::int64_t line_step;
    std::int64_t depth_step;
    std::int64_t lines;
    std::int64_t depth;
};

// Elements that lie some bytes apart, packed one after the other.
using LineKernel = void (*)(NumbersTo out, const std::byte* in, std::int64_t step, std::int64_t count) noexcept;

// The same for several lines.
struct SeveralLinesCall {
    NumbersTo out;
    std::int64_t out_step;  // from line to line, in numbers
    const std::byte* in;
    std::int64_t in_step;  // … in bytes
    std::int64_t lines;
    std::int64_t step;  // from element to element, in bytes
    std::int64_t count;
};
using SeveralLinesKernel = void (*)(const SeveralLinesCall& call) noexcept;

// Of up to `lanes` rows and few columns.
using NarrowTileKernel = void (*)(const TileCall& call, int rows) noexcept;

struct NarrowTiles {
    int columns = 0;                            // the most
    const NarrowTileKernel* kernels = nullptr;  // kernels[columns − 1]
};

// Tiles of one or two rows, and several panels of columns of the widest tiles: with one of these, processors would wait
// for the last sums before they can add to them. Rows may lie apart.
struct WideTiles {
    int rows = 0;                         // the most
    const int* panels = nullptr;          // of a tile, by rows − 1, …
    const TileKernel* kernels = nullptr;  // … as well
};

struct Tiles {
    int lanes;                          // floats in a vector
    int rows;                           // the most of a tile
    int vectors;                        // the most of a row of a tile
    const TileKernel* kernels;          // kernels[(rows − 1) · vectors + vectors of a row − 1]
    const TileKernel* apart = nullptr;  // the same of rows that lie apart
    NarrowTiles narrow{};
    WideTiles wide{};

    TileKernel tile(int height, int width) const { return kernels[(height - 1) * vectors + width - 1]; }
    TileKernel tile_apart(int height, int width) const { return apart[(height - 1) * vectors + width - 1]; }
};

inline constexpr int most_depths_of_word = 4;

// What some bits of words become, the same for each `period` of words.
struct OtherBits {
    const std::uint32_t* kept;
    const std::uint32_t* others;
    std::int64_t period;
};

// out[i] = the word of the bytes in[k][i · step] for k < depths, each with the bits of `flip` inverted; its other
// numbers are 0. Then each word becomes word & kept[i modulo `period`] | others[i modulo `period`].
struct WordsCall {
    std::uint32_t* out;
    const std::byte* in[most_depths_of_word];
    int depths;         // of `in`
    std::int64_t step;  // in bytes
    std::int64_t count;
    std::uint8_t flip;
    const OtherBits* replaced = nullptr;  // null: all words stay
};

// The same for bytes that follow one another: out[i] = the word of the bytes from in[i · depths of a word] on.
struct LineOfWordsCall {
    std::uint32_t* out;
    const std::byte* in;
    std::int64_t bytes;
    std::uint8_t flip;
};

// out[i] = initial + the sum over the taps t of weights[t] · in[offsets[t] + i], words with words. Reads and writes
// beyond `count` up to a whole vector.
struct WordTapsCall {
    std::int32_t* out;
    const std::uint32_t* in;
    const std::int64_t* offsets;
    const std::uint32_t* weights;
    std::int64_t taps;
    std::int64_t count;
    std::int32_t initial;
};

// sums[i] += constant − row_zero · column_sums[i] − row_sum · column_zeros[i]; what is null does not count.
struct ZeroPointsCall {
    std::int32_t* sums;
    std::int64_t count;
    std::int32_t constant;
    std::int32_t row_zero;
    const std::int32_t* column_sums;
    std::int32_t row_sum;
    const std::int32_t* column_zeros;
};

// Multiplies and adds in registers for some rounds, as the best of tiles would; returns how many operations that were.
// `sum` is a sum of the results, or its bits, which keeps compilers from leaving the work out.
using PeakKernel = double (*)(std::int64_t rounds, float* sum) noexcept;

// Sums of the numbers of words.
struct WordSums {
    std::int32_t (*total)(const std::uint32_t* words, std::int64_t count) noexcept;
    // sums[i] += the numbers of words[i].
    void (*add)(std::int32_t* sums, const std::uint32_t* words, std::int64_t count) noexcept;
};

inline constexpr int most_words_together = 2;

// Products of words: the numbers of one side, or of both, are signed.
struct IntegerKernels {
    int depths;             // of a word
    bool unsigned_columns;  // else signed
    bool unsigned_rows;     // …
    int words_together;  // whose products have sums of 16 bits: the signed side is small (see products/small_words.h);
                         // 0: none
    std::uint32_t ones;  // the word of ones
    Tiles tiles;
    Tiles tiles_of_bytes;  // whose columns have a byte for each number, without those of a word between them
    void (*words)(const WordsCall& call) noexcept;
    void (*line_of_words)(const LineOfWordsCall& call) noexcept;
    void (*taps)(const WordTapsCall& call) noexcept;  // the weights are a row
    WordSums rows;
    WordSums columns;
    void (*take_zero_points)(const ZeroPointsCall& call) noexcept;
    PeakKernel peak;
    // Of rows that meet 4-bit weights (see kernels/few_bits.h); null in kernels of small words. The words of 8 depths
    // each, …
    void (*nibble_words)(std::uint32_t* out, const std::int8_t* in, std::int64_t count) noexcept = nullptr;
    int words_of_nibbles = 0;                                             // … so many, …
    void (*nibble_rows)(const NibbleBytesCall& call) noexcept = nullptr;  // … and their products
};

struct ProductKernels : Tiles {
    // Of numbers of 32 bits, which are copied as they are, or of float16.
    void (*pack)(const PanelCall& call) noexcept;
    void (*pack_half)(const PanelCall& call) noexcept;
    LineKernel line;
    LineKernel half_line;
    SeveralLinesKernel several_lines;
    SeveralLinesKernel several_half_lines;
    void (*stream)(const StreamCall& call) noexcept;
    LinesKernel stream_lines;       // of float32
    LinesKernel stream_half_lines;  // of float16
    PeakKernel peak;
    IntegerKernels integers;

    LineKernel line_of(DataType type) const { return type == DataType::float16 ? half_line : line; }
    SeveralLinesKernel several_lines_of(DataType type) const {
        return type == DataType::float16 ? several_half_lines : several_lines;
    }
};

// Kernels that add up products of 8-bit integers in 16 bits: of rows four, two of each of two words, and of columns
// two. The numbers of this side are signed, and the sums of as many of them, of those above 0 or of those below, are at
// most 128: see products/small_words.h.
struct PairKernels {
    ProductKernels small_rows;
    ProductKernels small_columns;
};

// Those of a level; null if it has none, or something faster.
const PairKernels* useful_pairs(const Level& level) noexcept;

}  // namespace dmlgraph::cpu
