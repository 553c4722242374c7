#include "cpu/kernels/channel_block.h"

#include "cpu/kernels/level.h"
#include "cpu/kernels/part_vector.h"
#include "cpu/kernels/tile_ending.h"
#include "cpu/kernels/transpose.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace channel_block {
namespace {

// The first of some of `count` numbers that are a vector: from i on, or some of them again rather than a part of a
// vector.
DMLGRAPH_INLINE std::int64_t whole_from(std::int64_t i, std::int64_t count) {
    return i + lanes > count && count >= lanes ? count - lanes : i;
}

DMLGRAPH_INLINE Vector elements(const float* from) { return load(from); }
DMLGRAPH_INLINE Vector elements(const Half* from) { return load_halves(from); }
DMLGRAPH_INLINE Vector elements(const float* from, int count) { return load_part(from, part(0, count)); }
DMLGRAPH_INLINE Vector elements(const Half* from, int count) { return load_halves(from, count); }

template <class T, bool whole>
DMLGRAPH_INLINE void gather_square(const GatherCall& call, std::int64_t i) {
    const std::int64_t last = call.channels - 1;
    Vector square[lanes];
    DMLGRAPH_UNROLL
    for (int c = 0; c < lanes; ++c) {
        const T* const from = reinterpret_cast<const T*>(call.in) + (c < last ? c : last) * call.step + i;
        square[c] = whole ? elements(from) : elements(from, static_cast<int>(call.count));
    }
    transpose(square);
    DMLGRAPH_UNROLL
    for (int j = 0; j < lanes; ++j) {
        store(call.cells + call.places[i + j], square[j]);
    }
}

template <class T>
DMLGRAPH_INLINE void gather(const GatherCall& call) {
    if (call.count < lanes) {
        return gather_square<T, false>(call, 0);
    }
    for (std::int64_t i = 0; i < call.count; i += lanes) {
        gather_square<T, true>(call, whole_from(i, call.count));
    }
}

void gather_elements(const GatherCall& call) noexcept { call.halves ? gather<Half>(call) : gather<float>(call); }

constexpr int most_sums = 14;  // that fit into the registers, beside the weights of a tap

// `windows` of each of some rows, from row `first` and window `i` on.
template <int rows, int windows, int stride>
DMLGRAPH_INLINE void some_windows(const BlockTapsCall& call, std::int64_t first, std::int64_t i) {
    Vector sums[rows][windows];
    set_all(sums, repeated(0.0f));
    const std::int64_t down = call.stride_down * lanes;
    const float* row = call.in + first * down + i * stride * lanes;
    const float* weights = call.weights;
    for (std::int64_t y = 0; y < call.taps_down; ++y, row += call.dilation_down * lanes) {
        const float* from = row;
        for (std::int64_t x = 0; x < call.taps_across; ++x, from += call.dilation_across * lanes, weights += lanes) {
            const Vector weight = load(weights);
            DMLGRAPH_UNROLL
            for (int r = 0; r < rows; ++r) {
                DMLGRAPH_UNROLL
                for (int j = 0; j < windows; ++j) {
                    sums[r][j] = product_sum(weight, load(from + r * down + j * stride * lanes), sums[r][j]);
                }
            }
        }
    }
    DMLGRAPH_UNROLL
    for (int r = 0; r < rows; ++r) {
        DMLGRAPH_UNROLL
        for (int j = 0; j < windows; ++j) {
            store(call.out + ((first + r) * call.count + i + j) * lanes, sums[r][j]);
        }
    }
}

template <int windows, int stride>
void rows_of_windows(const BlockTapsCall& call) {
    constexpr int at_once = most_sums / windows > 4 ? 4 : most_sums / windows;
    for (std::int64_t i = 0; i < call.count; i += windows) {
        const std::int64_t place =
            i + windows > call.count ? call.count - windows : i;  // some again, rather than fewer
        std::int64_t first = 0;
        for (; first + at_once <= call.rows; first += at_once) {
            some_windows<at_once, windows, stride>(call, first, place);
        }
        for (; first < call.rows; ++first) {
            some_windows<1, windows, stride>(call, first, place);
        }
    }
}

#define STRIDES(windows) {rows_of_windows<windows, 1>, rows_of_windows<windows, 2>}
constexpr void (*const by_windows[most_sums][2])(const BlockTapsCall&) = {
    STRIDES(1), STRIDES(2), STRIDES(3),  STRIDES(4),  STRIDES(5),  STRIDES(6),  STRIDES(7),
    STRIDES(8), STRIDES(9), STRIDES(10), STRIDES(11), STRIDES(12), STRIDES(13), STRIDES(14),
};
#undef STRIDES

void taps(const BlockTapsCall& call) noexcept {
    const std::int64_t parts = (call.count + most_sums - 1) / most_sums;
    by_windows[(call.count + parts - 1) / parts - 1][call.stride_across - 1](call);
}

DMLGRAPH_INLINE void scatter_square(const ScatterCall& call, std::int64_t i, Part inside, bool whole) {
    Vector square[lanes];
    DMLGRAPH_UNROLL
    for (int j = 0; j < lanes; ++j) {
        square[j] = load(call.cells + (i + j) * call.cell_step);
    }
    transpose(square);
    const SumEnding* const ending = call.ending;
    if (ending != nullptr && ending->rounds()) {
        float sums[lanes * lanes];
        DMLGRAPH_UNROLL
        for (int c = 0; c < lanes; ++c) {
            store(sums + c * lanes, square[c]);
        }
        return end_in_half(sums, lanes, call.channels, lanes, *ending, i);
    }
    float* const out = call.out + i;
    if (whole) {
        Vector rows[lanes][1];
        DMLGRAPH_UNROLL
        for (int c = 0; c < lanes; ++c) {
            rows[c][0] = square[c];
        }
        if (ending != nullptr) {
            end<lanes, 1>(rows, *ending, i);
        }
        DMLGRAPH_UNROLL
        for (int c = 0; c < lanes; ++c) {
            store(out + c * call.step, rows[c][0]);
        }
        return;
    }
    float numbers[lanes][lanes];
    DMLGRAPH_UNROLL
    for (int c = 0; c < lanes; ++c) {
        store(numbers[c], square[c]);
    }
    for (int c = 0; c < call.channels; ++c) {
        Vector total = load(numbers[c]);
        if (ending != nullptr) {
            total = sum(total, repeated(ending->numbers.as<float>()[c]));
            if (ending->lines != nullptr) {
                total = sum(total, load_part(ending->lines + i + c * ending->step, inside, total));
            }
            total = applied(total, ending->function);
        }
        store_part(out + c * call.step, total, inside);
    }
}

void scatter(const ScatterCall& call) noexcept {
    const Part inside = part(0, call.count < lanes ? static_cast<int>(call.count) : lanes);
    const bool whole = call.channels == lanes && call.count >= lanes;
    for (std::int64_t i = 0; i < call.count; i += lanes) {
        scatter_square(call, whole_from(i, call.count), inside, whole);
    }
}

}  // namespace
}  // namespace channel_block

constexpr ChannelBlockKernels channel_block_kernels{channel_block::gather_elements, channel_block::taps,
                                                    channel_block::scatter};

}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
