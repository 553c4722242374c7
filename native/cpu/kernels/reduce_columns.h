// Reductions of lines that have an element of each of several columns.
#pragma once

#include "cpu/kernels/reduce_functions.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace reduce {
namespace {

// So few columns, whose states stay in registers.
template <class Function, std::size_t count, class In>
DMLGRAPH_INLINE void few_columns(typename Function::State* state, const char* line, std::ptrdiff_t stride,
                                 std::size_t length) {
    typename Function::State sum[count];
    DMLGRAPH_UNROLL
    for (std::size_t c = 0; c < count; ++c) {
        sum[c] = state[c];
    }
    for (std::size_t i = 0; i < length; ++i, line += stride) {
        const auto* x = reinterpret_cast<const In*>(line);
        DMLGRAPH_UNROLL
        for (std::size_t c = 0; c < count; ++c) {
            sum[c] = Function::join(sum[c], Function::term(x[c]));
        }
    }
    DMLGRAPH_UNROLL
    for (std::size_t c = 0; c < count; ++c) {
        state[c] = sum[c];
    }
}

#ifdef DMLGRAPH_DOUBLES
// The same of floats that become doubles.
template <class Function>
struct WideSums {
    using States = Doubles;
    static DMLGRAPH_INLINE States terms(const float* x) { return Function::wide_terms(floats(x)); }
    static DMLGRAPH_INLINE States join(States a, States b) { return DMLGRAPH_LEVEL::sum(a, b); }
};
#endif

// `count` vectors of columns, whose states stay in registers. The last one ends with column `end`: it may have columns
// of the one before.
template <class Vectors, std::size_t count, class State>
DMLGRAPH_INLINE void vectors_of_columns(State* state, const char* line, std::ptrdiff_t stride, std::size_t end,
                                        std::size_t length) {
    constexpr std::size_t width = sizeof(typename Vectors::States) / sizeof(State);
    typename Vectors::States sum[count];
    DMLGRAPH_UNROLL
    for (std::size_t k = 0; k < count; ++k) {
        sum[k] = load(state + (k + 1 < count ? k * width : end - width));
    }
    for (std::size_t i = 0; i < length; ++i, line += stride) {
        const auto* x = reinterpret_cast<const float*>(line);
        DMLGRAPH_UNROLL
        for (std::size_t k = 0; k < count; ++k) {
            sum[k] = Vectors::join(sum[k], Vectors::terms(x + (k + 1 < count ? k * width : end - width)));
        }
    }
    DMLGRAPH_UNROLL
    for (std::size_t k = 0; k < count; ++k) {
        store(state + (k + 1 < count ? k * width : end - width), sum[k]);
    }
}

// Fewer columns than a vector has.
template <class Vectors>
DMLGRAPH_INLINE void part_of_vector(float* state, const char* line, std::ptrdiff_t stride, std::size_t count,
                                    std::size_t length) {
    const auto some = part(0, static_cast<int>(count));
    Vector all = load_part(state, some);
    for (std::size_t i = 0; i < length; ++i, line += stride) {
        all = Vectors::join(all, load_part(reinterpret_cast<const float*>(line), some));
    }
    store_part(state, all, some);
}

// At least a vector of columns.
template <class Vectors, class State>
void wide_columns(State* state, const char* line, std::ptrdiff_t stride, std::size_t count, std::size_t length) {
    constexpr std::size_t width = sizeof(typename Vectors::States) / sizeof(State), most = 4;
    for (std::size_t left = count; left > 0;) {
        const std::size_t vectors = (left + width - 1) / width;
        // Never one at last: it would have columns that are done.
        const std::size_t some = vectors == most + 1 ? most - 1 : lesser(vectors, most),
                          end = lesser(left, some * width);
        switch (some) {
            case 1: vectors_of_columns<Vectors, 1>(state, line, stride, end, length); break;
            case 2: vectors_of_columns<Vectors, 2>(state, line, stride, end, length); break;
            case 3: vectors_of_columns<Vectors, 3>(state, line, stride, end, length); break;
            default: vectors_of_columns<Vectors, most>(state, line, stride, end, length); break;
        }
        state += end;
        line += end * sizeof(float);
        left -= end;
    }
}

template <class Function, class In>
void columns(void* states, const void* in, std::ptrdiff_t stride, std::size_t count, std::size_t length,
             std::uint64_t) noexcept {
    auto* state = static_cast<typename Function::State*>(states);
    if constexpr (!is_same<In, Half>) {
        const auto* line = static_cast<const char*>(in);
        switch (count) {
            case 1: return few_columns<Function, 1, In>(state, line, stride, length);
            case 2: return few_columns<Function, 2, In>(state, line, stride, length);
            case 3: return few_columns<Function, 3, In>(state, line, stride, length);
            case 4: return few_columns<Function, 4, In>(state, line, stride, length);
            default: break;
        }
        if constexpr (is_same<In, float> && requires(float x) { Function::beats(x, x); }) {
            if (count < static_cast<std::size_t>(lanes)) {
                return part_of_vector<Extremes<Function>>(state, line, stride, count, length);
            }
            return wide_columns<Extremes<Function>>(state, line, stride, count, length);
        }
        switch (count) {
            case 5: return few_columns<Function, 5, In>(state, line, stride, length);
            case 6: return few_columns<Function, 6, In>(state, line, stride, length);
            case 7: return few_columns<Function, 7, In>(state, line, stride, length);
            default: break;
        }
#ifdef DMLGRAPH_DOUBLES
        if constexpr (is_same<In, float> && requires(Floats x) { Function::wide_terms(x); }) {
            if (count >= sizeof(Doubles) / sizeof(double)) {
                return wide_columns<WideSums<Function>>(state, line, stride, count, length);
            }
        }
#endif
    }
    Elements<In> elements;
    for (std::size_t done = 0; done < count;) {
        const std::size_t part = lesser(count - done, Elements<In>::most);
        const auto* line = static_cast<const char*>(in) + done * sizeof(In);
        for (std::size_t i = 0; i < length; ++i, line += stride) {
            const auto* x = elements.take(reinterpret_cast<const In*>(line), part);
            DMLGRAPH_LOOP
            for (std::size_t c = 0; c < part; ++c) {
                state[done + c] = Function::join(state[done + c], Function::term(x[c]));
            }
        }
        done += part;
    }
}

}  // namespace
}  // namespace reduce
}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
