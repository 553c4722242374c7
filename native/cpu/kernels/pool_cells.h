// Pooling of cells, see channel_block.h: the windows of several channels at a time.
#pragma once

#include "cpu/kernels/pooling.h"
#include "cpu/kernels/vector.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace {

// The taps of some results, `step` floats apart; those of a result are `tap_step` floats apart.
template <class Function, int at_once>
DMLGRAPH_INLINE void pool_some(float* out, const float* in, std::int64_t step, std::int64_t tap_step, std::int64_t taps,
                               Vector start) {
    const Function function;
    Vector totals[at_once];
    DMLGRAPH_UNROLL
    for (int j = 0; j < at_once; ++j) {
        totals[j] = start;
    }
    for (std::int64_t t = 0; t < taps; ++t, in += tap_step) {
        DMLGRAPH_UNROLL
        for (int j = 0; j < at_once; ++j) {
            totals[j] = function(totals[j], load(in + j * step));
        }
    }
    DMLGRAPH_UNROLL
    for (int j = 0; j < at_once; ++j) {
        store(out + j * lanes, totals[j]);
    }
}

template <class Function>
DMLGRAPH_INLINE void pool_line(float* out, const float* in, std::int64_t step, std::int64_t tap_step, std::int64_t taps,
                               std::int64_t count, Vector start) {
    constexpr int at_once = 4;
    std::int64_t i = 0;
    for (; i + at_once <= count; i += at_once) {
        pool_some<Function, at_once>(out + i * lanes, in + i * step, step, tap_step, taps, start);
    }
    for (; i < count; ++i) {
        pool_some<Function, 1>(out + i * lanes, in + i * step, step, tap_step, taps, start);
    }
}

template <class Function>
void pool_cells(const PoolCellsCall& call) noexcept {
    const Vector start = repeated(call.start);
    const std::int64_t line = call.count * lanes,
                       in_rows = (call.rows - 1) * call.stride_down + (call.taps_down - 1) * call.dilation_down + 1;
    for (std::int64_t y = 0; y < in_rows; ++y) {
        pool_line<Function>(call.lines + y * line, call.in + y * call.pitch * lanes, call.stride_across * lanes,
                            call.dilation_across * lanes, call.taps_across, call.count, start);
    }
    for (std::int64_t r = 0; r < call.rows; ++r) {
        pool_line<Function>(call.out + r * line, call.lines + r * call.stride_down * line, lanes,
                            call.dilation_down * line, call.taps_down, call.count, start);
    }
}

}  // namespace
}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
