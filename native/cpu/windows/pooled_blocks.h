// Pooling of small planes of floats in blocks of channels, see products/channel_block.h: where the rows of a plane are
// short, or windows unusual, vectors along rows would have few lanes with work.
//
// Of each row the taps come first, then the rows, as in the bands of pooling.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/products/channel_block.h"
#include "cpu/runtime/scratch.h"
#include "cpu/windows/pooling.h"

namespace dmlgraph::cpu {

class PooledBlocks {
public:
    PooledBlocks(const Pooling& pooling, const Level& level);

    // Whether this takes less time than `Bands` does, for planes of so many channels.
    static bool pays(const Pooling& pooling, std::int64_t channels, const Level& level);
    // Whether the elements lie as they are read here.
    bool reads(const Planes& planes) const;
    std::int64_t channels_at_once() const { return lanes_; }
    std::size_t scratch_bytes() const;

    // Memory of a worker, which is the same for each of its blocks.
    void prepare(Scratch scratch) const;
    // The results of some channels, `step` floats from one to the next.
    void compute(const Planes& planes, const std::byte* plane, int channels, float* out, std::int64_t step,
                 Scratch scratch) const;

private:
    struct Memory;

    const Pooling& pooling_;
    int lanes_;
    CellPlane plane_;
    const ChannelBlockKernels& kernels_;
    float start_ = 0;  // with which each result begins
};

}  // namespace dmlgraph::cpu
