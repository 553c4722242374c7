// Convolutions of floats whose windows are read from planes: copies of rows of a tensor in which the elements that some
// neighbouring windows have at a tap lie side by side.
//
// Sums are accumulated in float32, in the order of the depth: fused multiply-adds at every level that has them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/kernels/kernel.h"
#include "cpu/kernels/picture.h"
#include "cpu/kernels/sum_ending.h"

namespace dmlgraph::cpu {

// Rows of a tensor as rows of floats: the elements begin … end − 1 come from memory, the others of `count` are zero.
// Writes beyond the last row up to a whole vector.
struct PlaneCall {
    float* out;
    std::int64_t pitch;   // floats from row to row, at least `count`
    const std::byte* in;  // the element `begin` of the first row; steps in bytes
    std::int64_t row_step;
    std::int64_t step;
    std::int64_t rows;
    std::int64_t count;
    std::int64_t begin;
    std::int64_t end;
};

using PlaneKernel = void (*)(const PlaneCall& call) noexcept;

// sums = filters · windows, or sums += filters · windows, of a panel of filters (see kernels/product.h) and as many
// windows as a tile has; steps in floats.
struct WindowTileCall {
    const float* filters;
    std::int64_t filter_step;  // from depth to depth
    const float* planes;
    const std::int64_t* offsets;  // by depth: from `planes` to the element of the tile's first window
    std::int64_t depth;
    float* sums;
    std::int64_t step;  // from row to row
    bool adds;
    NumbersAt next{};  // as in TileCall
    std::int64_t next_step = 0;
    const SumEnding* ending = nullptr;  // of a tile whose rows are filters, as in TileCall
    std::int64_t column = 0;
    std::int64_t columns = every_column;
    const std::int64_t* places = nullptr;  // of a tile whose rows are windows: from the first window to each
};

using WindowTileKernel = void (*)(const WindowTileCall& call) noexcept;

struct WindowTiles {
    int rows;                         // the most of a tile
    int vectors;                      // the most of a row of a tile
    const WindowTileKernel* kernels;  // kernels[(rows − 1) · vectors + vectors of a row − 1]

    WindowTileKernel tile(int height, int width) const { return kernels[(height - 1) * vectors + width - 1]; }
};

// Rows of windows of one channel: out[r · count + i] = the sum over the taps (y, x) of weights[y · taps_across + x] ·
// in[(r · stride + y · dilation) · pitch + places[x] + i], in this order. Reads beyond the last window up to a whole
// vector.
struct TapsCall {
    float* out;
    std::int64_t rows;
    std::int64_t count;
    const float* in;
    std::int64_t pitch;
    std::int64_t stride;
    std::int64_t dilation;
    std::int64_t taps_down;
    std::int64_t taps_across;
    const std::int64_t* places;
    const float* weights;
    const SumEnding* ending =
        nullptr;  // with one number, and lines and halves that lie as the sums do; null: nothing follows
};

// The same of a channel that is read where it lies, with zeros around it: windows of 3 × 3 or 5 × 5 elements that are 1
// or 2 apart along a row, or of 7 × 7 elements, 1 apart; rows may be any number apart.
struct PictureCall {
    float* out;
    std::int64_t rows;
    std::int64_t count;
    Picture from;
    const float* weights;
    const SumEnding* ending = nullptr;  // as above
};

struct ConvolutionKernels {
    int lanes;               // floats in a vector
    WindowTiles across;      // a row for each filter, with vectors of windows
    WindowTiles along;       // a row for each window, with vectors of filters
    PlaneKernel plane;       // of float32
    PlaneKernel half_plane;  // of float16
    void (*taps)(const TapsCall& call) noexcept;
    void (*picture)(const PictureCall& call) noexcept;  // null: loading parts of vectors takes too long
    // Whether the windows of a tile along the outputs may lie anywhere in planes; else they lie side by side.
    bool has_places;
    // The time that a vector of sums takes in a tile along the outputs, in that of one across windows: in a whole tile,
    // and in one of fewer vectors. Windows of a tile across lie in lines that no prefetcher foresees, its vectors often
    // in two.
    double along_cost;
    double narrow_along_cost;
};

}  // namespace dmlgraph::cpu
