// Reductions of rows of elements: a row becomes one partial result.
#pragma once

#include "cpu/kernels/reduce_functions.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace reduce {
namespace {

// Joins as many whole groups of lanes as there are, and returns the first element after them.
template <class Function, std::size_t lanes, class In>
DMLGRAPH_INLINE std::size_t join_lanes(typename Function::State* lane, const In* x, std::size_t i, std::size_t length) {
#ifdef DMLGRAPH_DOUBLES
    constexpr std::size_t width = sizeof(Doubles) / sizeof(double);
    if constexpr (is_same<In, float> && is_same<typename Function::State, double> && lanes % width == 0 &&
                  requires(Floats some) { Function::wide_terms(some); }) {
        constexpr int vectors = lanes / width;
        Doubles sums[vectors];
        DMLGRAPH_UNROLL
        for (int k = 0; k < vectors; ++k) {
            sums[k] = load(lane + k * width);
        }
        for (; i + lanes <= length; i += lanes) {
            DMLGRAPH_UNROLL
            for (int k = 0; k < vectors; ++k) {
                sums[k] = DMLGRAPH_LEVEL::sum(sums[k], Function::wide_terms(floats(x + i + k * width)));
            }
        }
        DMLGRAPH_UNROLL
        for (int k = 0; k < vectors; ++k) {
            store(lane + k * width, sums[k]);
        }
    }
#endif
    for (; i + lanes <= length; i += lanes) {
        DMLGRAPH_LOOP
        for (std::size_t j = 0; j < lanes; ++j) {
            lane[j] = Function::join(lane[j], Function::term(x[i + j]));
        }
    }
    return i;
}

// The extreme of floats in any order. `length` is a vector's at least: the last one may have elements of the one
// before.
template <class Function>
DMLGRAPH_INLINE float extreme(const float* x, std::size_t length) {
    constexpr std::size_t width = lanes, vectors = 4;
    const auto join = Extremes<Function>::join;
    Vector all = repeated(Function::start);
    std::size_t i = 0;
    if (length >= vectors * width) {
        Vector part[vectors] = {all, all, all, all};
        for (; i + vectors * width <= length; i += vectors * width) {
            DMLGRAPH_UNROLL
            for (std::size_t k = 0; k < vectors; ++k) {
                part[k] = join(part[k], load(x + i + k * width));
            }
        }
        all = join(join(part[0], part[1]), join(part[2], part[3]));
    }
    for (; i + width <= length; i += width) {
        all = join(all, load(x + i));
    }
    if (i < length) {
        all = join(all, load(x + length - width));
    }
    DMLGRAPH_UNROLL
    for (std::size_t k = 1; k < width; k *= 2) {
        all = join(even(all, all), odd(all, all));
    }
    float lane[width];
    store(lane, all);
    return lane[0];
}

// Joins what the function takes in groups of elements, and returns the first element after them.
template <class Function, std::size_t lanes, class In>
DMLGRAPH_INLINE std::size_t join_groups([[maybe_unused]] typename Function::State* lane, [[maybe_unused]] const In* x,
                                        std::size_t i, [[maybe_unused]] std::size_t length) {
    if constexpr (requires { Function::group; }) {
        constexpr std::size_t step = Function::group * lanes;
        for (; i + step <= length; i += step) {
            DMLGRAPH_LOOP
            for (std::size_t j = 0; j < lanes; ++j) {
                lane[j] = Function::join(lane[j], Function::terms(x + i + j, lanes));
            }
        }
    }
    return i;
}

constexpr std::size_t last_lanes = 8;

// A sum of floats in double: of so many lanes, which begin with those of `lane`, and of the elements after the last
// whole group of these, which are added to the first lanes.
template <class Function>
DMLGRAPH_INLINE double sum_of_few(double* lane, const float* x, std::size_t length) {
#ifdef DMLGRAPH_DOUBLES
    constexpr std::size_t width = sizeof(Doubles) / sizeof(double), vectors = last_lanes / width;
    Doubles sums[vectors];
    DMLGRAPH_UNROLL
    for (std::size_t k = 0; k < vectors; ++k) {
        sums[k] = load(lane + k * width);
    }
    for (; length >= last_lanes; x += last_lanes, length -= last_lanes) {
        DMLGRAPH_UNROLL
        for (std::size_t k = 0; k < vectors; ++k) {
            sums[k] = sum(sums[k], Function::wide_terms(floats(x + k * width)));
        }
    }
    if (length > 0) {
        const Vector rest = load_part(x, part(0, static_cast<int>(length)));
        sums[0] = sum(sums[0], Function::wide_terms(first_floats(rest)));
        if constexpr (vectors == 2) {
            sums[1] = sum(sums[1], Function::wide_terms(next_floats(rest)));
        }
    }
    return folded(vectors == 2 ? sum(sums[0], sums[vectors - 1]) : sums[0]);
#else
    for (; length >= last_lanes; x += last_lanes, length -= last_lanes) {
        for (std::size_t j = 0; j < last_lanes; ++j) {
            lane[j] += Function::term(x[j]);
        }
    }
    for (std::size_t j = 0; j < length; ++j) {
        lane[j] += Function::term(x[j]);
    }
    return fold<Function, last_lanes>(lane);
#endif
}

template <class Function>
DMLGRAPH_INLINE double sum_of_row(const float* x, std::size_t length) {
    constexpr std::size_t lanes = lanes_of<double>;
    if (length < 4 * lanes) {
        double lane[last_lanes] = {};
        return sum_of_few<Function>(lane, x, length);
    }
    double lane[lanes];
    for (std::size_t j = 0; j < lanes; ++j) {
        lane[j] = Function::join(Function::start, Function::term(x[j]));
    }
    std::size_t i = join_groups<Function, lanes>(lane, x, lanes, length);
    i = join_lanes<Function, lanes>(lane, x, i, length);
    fold<Function, lanes, last_lanes>(lane);
    return sum_of_few<Function>(lane, x + i, length - i);
}

// Lanes are combined in the same order at every level: many at first, and few for the elements that are left.
template <class Function, class In>
typename Function::State row(const In* x, std::size_t length) {
    using State = typename Function::State;
    if constexpr (is_same<In, float> && is_same<State, double> && requires { Function::is_sum; }) {
        return sum_of_row<Function>(x, length);
    }
    constexpr std::size_t lanes = lanes_of<State>, few = lanes / 8;
    State sum = Function::start;
    std::size_t i = 0;
    if constexpr (is_same<In, float> && requires { Function::beats(x[0], x[0]); }) {
        if (length >= static_cast<std::size_t>(DMLGRAPH_LEVEL::lanes)) {
            sum = extreme<Function>(x, length);
            i = length;
        }
    }
    if (length - i >= 2 * lanes) {
        State lane[lanes];
        for (std::size_t j = 0; j < lanes; ++j) {
            lane[j] = Function::join(Function::start, Function::term(x[j]));
        }
        i = lanes;
        i = join_groups<Function, lanes>(lane, x, i, length);
        i = join_lanes<Function, lanes>(lane, x, i, length);
        sum = fold<Function, lanes>(lane);
    }
    if (length - i >= 2 * few) {
        State lane[few];
        for (std::size_t j = 0; j < few; ++j) {
            lane[j] = Function::join(Function::start, Function::term(x[i + j]));
        }
        i = join_lanes<Function, few>(lane, x, i + few, length);
        sum = Function::join(sum, fold<Function, few>(lane));
    }
    for (; i < length; ++i) {
        sum = Function::join(sum, Function::term(x[i]));
    }
    if constexpr (is_float<In> && requires { Function::beats(sum, sum); }) {
        // An extreme; of zeros of different signs it must be the first, which the lanes do not know.
        for (i = 0; sum == State{0} && i < length; ++i) {
            if (x[i] == sum) {
                return x[i];
            }
        }
    }
    return sum;
}

// Rows of so few elements, side by side in vectors. The order is that of `row`.
template <class Function, std::size_t length, class In>
DMLGRAPH_INLINE void short_rows(typename Function::State* state, const In* x, std::size_t count) {
    DMLGRAPH_LOOP
    for (std::size_t r = 0; r < count; ++r) {
        typename Function::State sum = Function::start;
        DMLGRAPH_UNROLL
        for (std::size_t i = 0; i < length; ++i) {
            sum = Function::join(sum, Function::term(x[r * length + i]));
        }
        state[r] = Function::join(state[r], sum);
    }
}

template <class Function, class In>
void rows(void* states, const void* in, std::size_t count, std::size_t length, std::uint64_t) noexcept {
    auto* state = static_cast<typename Function::State*>(states);
    const auto* x = static_cast<const In*>(in);
    if constexpr (!is_same<In, Half>) {
        switch (length) {
            case 1: return short_rows<Function, 1>(state, x, count);
            case 2: return short_rows<Function, 2>(state, x, count);
            case 3: return short_rows<Function, 3>(state, x, count);
            case 4: return short_rows<Function, 4>(state, x, count);
            default: break;
        }
    }
    Elements<In> elements;
    for (std::size_t r = 0; r < count; ++r, x += length) {
        for (std::size_t done = 0; done < length;) {
            const std::size_t part = lesser(length - done, Elements<In>::most);
            state[r] = Function::join(state[r], row<Function>(elements.take(x + done, part), part));
            done += part;
        }
    }
}

}  // namespace
}  // namespace reduce
}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
