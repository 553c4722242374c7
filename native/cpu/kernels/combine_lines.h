// Lines of elements combined one by one: those that some windows have at each of their taps.
#pragma once

#include "cpu/kernels/part_vector.h"
#include "cpu/kernels/pooling.h"
#include "cpu/kernels/types.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace pooling {
namespace {

constexpr int most_at_once = 4;  // taps that are combined in one pass over several rows

// out = start ∘ in[0] ∘ … ∘ in[taps − 1]; what is in `out` already is the start if it `continues`.
template <class Function, class T, int taps, bool continues>
DMLGRAPH_ONCE void pass(T* out, const T* const* in, std::int64_t count, T start) {
    const Function function;
    const T* lines[taps];
    DMLGRAPH_UNROLL
    for (int t = 0; t < taps; ++t) {
        lines[t] = in[t];
    }
    DMLGRAPH_LOOP
    for (std::int64_t i = 0; i < count; ++i) {
        T total = continues ? out[i] : start;
        DMLGRAPH_UNROLL
        for (int t = 0; t < taps; ++t) {
            total = function(total, lines[t][i]);
        }
        out[i] = total;
    }
}

template <class Function, class T, bool continues>
void pass(int taps, T* out, const T* const* in, std::int64_t count, T start) {
    switch (taps) {
        case 1: return pass<Function, T, 1, continues>(out, in, count, start);
        case 2: return pass<Function, T, 2, continues>(out, in, count, start);
        case 3: return pass<Function, T, 3, continues>(out, in, count, start);
        default: return pass<Function, T, 4, continues>(out, in, count, start);
    }
}

// Of floats, as many vectors of results as `vectors` from i on, the last of which may have results of the one before.
template <class Function, int vectors>
DMLGRAPH_INLINE void combined_vectors(const CombineCall& call, std::int64_t i, Vector start) {
    const Function function;
    const std::int64_t last = i + vectors * lanes <= call.count ? (vectors - 1) * lanes : call.count - lanes - i;
    Vector totals[vectors];
    DMLGRAPH_UNROLL
    for (int k = 0; k < vectors; ++k) {
        totals[k] = start;
    }
    for (std::int64_t t = 0; t < call.taps; ++t) {
        const float* const line = static_cast<const float*>(call.in) + call.offsets[t] + i;
        DMLGRAPH_UNROLL
        for (int k = 0; k < vectors; ++k) {
            totals[k] = function(totals[k], load(line + (k + 1 < vectors ? k * lanes : last)));
        }
    }
    float* const out = static_cast<float*>(call.out) + i;
    DMLGRAPH_UNROLL
    for (int k = 0; k < vectors; ++k) {
        store(out + (k + 1 < vectors ? k * lanes : last), totals[k]);
    }
}

template <class Function>
void combine_floats(const CombineCall& call) {
    constexpr int together = 4;
    const Function function;
    const Vector start = repeated(*static_cast<const float*>(call.start));
    if (call.count < lanes) {
        const Part some = part(0, static_cast<int>(call.count));
        Vector total = start;
        for (std::int64_t t = 0; t < call.taps; ++t) {
            total = function(total, load_part(static_cast<const float*>(call.in) + call.offsets[t], some));
        }
        return store_part(static_cast<float*>(call.out), total, some);
    }
    std::int64_t i = 0;
    for (; i + together * lanes < call.count; i += together * lanes) {
        combined_vectors<Function, together>(call, i, start);
    }
    switch ((call.count - i + lanes - 1) / lanes) {
        // A single vector that is less than whole begins before i.
        case 1: return combined_vectors<Function, 1>(call, i + lanes <= call.count ? i : call.count - lanes, start);
        case 2: return combined_vectors<Function, 2>(call, i, start);
        case 3: return combined_vectors<Function, 3>(call, i, start);
        default: return combined_vectors<Function, together>(call, i, start);
    }
}

template <class Function, class T>
void combine(const CombineCall& call) noexcept {
    if constexpr (is_same<T, float>) {
        combine_floats<Function>(call);
    } else {
        auto* const out = static_cast<T*>(call.out);
        const auto* const in = static_cast<const T*>(call.in);
        const T start = *static_cast<const T*>(call.start);
        for (std::int64_t first = 0; first < call.taps; first += most_at_once) {
            const std::int64_t rest = call.taps - first;
            const int taps = rest < most_at_once ? static_cast<int>(rest) : most_at_once;
            const T* lines[most_at_once];
            for (int t = 0; t < taps; ++t) {
                lines[t] = in + call.offsets[first + t];
            }
            if (first == 0) {
                pass<Function, T, false>(taps, out, lines, call.count, start);
            } else {
                pass<Function, T, true>(taps, out, lines, call.count, start);
            }
        }
    }
}

}  // namespace
}  // namespace pooling
}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
