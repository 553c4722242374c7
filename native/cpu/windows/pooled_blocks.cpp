#include "cpu/windows/pooled_blocks.h"

#include <algorithm>
#include <cstring>

#include "cpu/kernels/level.h"
#include "cpu/runtime/scratch.h"

namespace dmlgraph::cpu {
namespace {

constexpr std::int64_t ample_cells = 64 << 10;  // floats of a block's cells: they stay in the second cache

}  // namespace

// The memory of a worker.
struct PooledBlocks::Memory {
    float* cells;
    float* lines;
    float* results;

    Memory(Scratch& scratch, const PooledBlocks& blocks) {
        const Windows& windows = blocks.pooling_.windows;
        const std::int64_t lanes = blocks.lanes_, rows = (blocks.plane_.cells - 1) / blocks.plane_.pitch;
        cells = scratch.take(blocks.plane_.cells * lanes);
        lines = scratch.take(rows * windows.counts[2] * lanes);
        results =
            scratch.take(std::max(windows.count(), lanes) * lanes);  // at least the cells of a vector, see ScatterCall
    }
};

PooledBlocks::PooledBlocks(const Pooling& pooling, const Level& level)
    : pooling_(pooling),
      lanes_(level.products->lanes),
      plane_(pooling.windows, pooling.sizes, lanes_),
      kernels_(level.channel_block) {
    std::memcpy(&start_, pooling.start.data(), sizeof(start_));
}

bool PooledBlocks::pays(const Pooling& pooling, std::int64_t channels, const Level& level) {
    const Windows& windows = pooling.windows;
    const std::int64_t lanes = level.products->lanes;
    if (!windows.is_flat(pooling.sizes) || !pooling.is_float() || pooling.power != 0 || channels < lanes / 2) {
        return false;
    }
    // Rows of a picture that are as long are gone through with fewer instructions.
    const std::int64_t long_row = windows.strides[2] == 2 ? lanes / 2 : lanes * 5 / 4;
    if (pooling.has_picture() && windows.counts[2] > long_row) {
        return false;
    }
    return CellPlane::count(windows, pooling.sizes) * lanes <= ample_cells;
}

bool PooledBlocks::reads(const Planes& planes) const {
    return planes.row.rank == 1 && has_pictures(pooling_.type, pooling_.sizes, planes.strides, planes.batch[1]);
}

std::size_t PooledBlocks::scratch_bytes() const { return scratch_of<Memory>(*this); }

void PooledBlocks::prepare(Scratch scratch) const {
    std::fill_n(Memory(scratch, *this).cells, plane_.cells * lanes_, start_);
}

void PooledBlocks::compute(const Planes& planes, const std::byte* plane, int channels, float* out, std::int64_t step,
                           Scratch scratch) const {
    const Memory memory(scratch, *this);
    const Windows& windows = pooling_.windows;
    const std::int64_t apart = planes.batch[1] / static_cast<std::int64_t>(item_size(pooling_.type));
    kernels_.gather({memory.cells, plane_.places.data(), plane, pooling_.type == DataType::float16, apart, channels,
                     pooling_.sizes[1] * pooling_.sizes[2]});
    pooling_.kernels->cells({memory.results, memory.lines, memory.cells, plane_.pitch, windows.counts[1],
                             windows.counts[2], windows.strides[1], windows.strides[2], windows.dilations[1],
                             windows.dilations[2], windows.taps[1], windows.taps[2], start_});
    kernels_.scatter({memory.results, lanes_, windows.count(), out, step, channels});
}

}  // namespace dmlgraph::cpu
