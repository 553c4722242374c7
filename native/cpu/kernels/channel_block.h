// Blocks of channels: cells have the numbers of some channels at a place, a channel in each lane of a vector.
//
// Sums over taps of one channel are then sums of whole vectors, however short the rows of windows are.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/kernels/kernel.h"
#include "cpu/kernels/sum_ending.h"

namespace dmlgraph::cpu {

// Elements of as many channels as a vector has lanes, or fewer, become cells.
struct GatherCall {
    float* cells;
    const std::int64_t* places;  // by element, and for at least a vector of them: floats from `cells` to its cell
    const std::byte* in;         // float32, or float16 if they are `halves`
    bool halves;
    std::int64_t step;  // elements from channel to channel
    int channels;
    std::int64_t count;  // elements of a channel
};

// Rows of windows of a block: cell r · count + i of the result is the sum over the taps (y, x) of weights[y ·
// taps_across + x] · in[r · stride_down + y · dilation_down + i · stride_across + x · dilation_across], in this order.
// Weights are cells as well.
struct BlockTapsCall {
    float* out;
    std::int64_t rows;
    std::int64_t count;
    const float* in;
    std::int64_t stride_down;    // these in cells
    std::int64_t stride_across;  // 1 or 2
    std::int64_t dilation_down;
    std::int64_t dilation_across;
    std::int64_t taps_down;
    std::int64_t taps_across;
    const float* weights;
};

// Cells become elements of channels, after what follows them. Reads at least a vector of cells.
struct ScatterCall {
    const float* cells;
    std::int64_t cell_step;  // floats from cell to cell
    std::int64_t count;      // of them
    float* out;              // unless the results become float16
    std::int64_t step;       // floats from channel to channel
    int channels;
    const SumEnding* ending = nullptr;  // with a number for each lane; null: nothing follows
};

struct ChannelBlockKernels {
    void (*gather)(const GatherCall& call) noexcept;
    void (*taps)(const BlockTapsCall& call) noexcept;
    void (*scatter)(const ScatterCall& call) noexcept;
};

}  // namespace dmlgraph::cpu
