// What reductions do with an element and with partial results, and what they read.
#pragma once

#include "cpu/kernels/doubles.h"
#include "cpu/kernels/half.h"
#include "cpu/kernels/math.h"
#include "cpu/kernels/part_vector.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace reduce {
namespace {

// Several vectors of each level; otherwise additions would wait for each other.
template <class State>
constexpr std::size_t lanes_of = 256 / sizeof(State);

// Functions on elements of type In (Half arrives as float); State is the type of partial results.

// How two partial results are combined. Code that does not depend on the element type is instantiated for this type
// only.
template <class Wide>
struct Adding {
    using State = Wide;
    using Joining = Adding;
    static constexpr State start = 0;
    static DMLGRAPH_INLINE State join(State a, State b) { return a + b; }
};

template <class In, class Wide>
struct Sum : Adding<Wide> {
    static constexpr bool is_sum = true;
    static DMLGRAPH_INLINE Wide term(In x) { return static_cast<Wide>(x); }
#ifdef DMLGRAPH_DOUBLES
    static DMLGRAPH_INLINE Doubles wide_terms(Floats x) { return widened(x); }
#endif
};

// Converting to double takes longer than adding: so it is done for four elements at once.
template <class In, class Wide>
struct SumAlike : Sum<In, Wide> {
    static constexpr std::size_t group = 4;
    static DMLGRAPH_INLINE Wide terms(const In* x, std::size_t apart) {
        return static_cast<Wide>((x[0] + x[apart]) + (x[2 * apart] + x[3 * apart]));
    }
};

template <class In, class Wide>
struct SumAbs : Adding<Wide> {
    static DMLGRAPH_INLINE Wide term(In x) {
        if constexpr (is_float<In>) {
            return static_cast<Wide>(magnitude(x));
        } else {
            return x < In{0} ? Wide{0} - static_cast<Wide>(x) : static_cast<Wide>(x);
        }
    }
};

template <class In, class Wide>
struct SumSquare : Adding<Wide> {
    static constexpr bool is_sum = true;
    static DMLGRAPH_INLINE Wide term(In x) {
        if constexpr (is_float<In>) {
            return static_cast<Wide>(x * x);
        } else {
            return static_cast<Wide>(x) * static_cast<Wide>(x);
        }
    }
#ifdef DMLGRAPH_DOUBLES
    static DMLGRAPH_INLINE Doubles wide_terms(Floats x) { return widened_squares(x); }
#endif
};

template <class In, class Wide>
struct SumSquareWide : Adding<Wide> {
    static constexpr bool is_sum = true;
    static DMLGRAPH_INLINE Wide term(In x) { return static_cast<Wide>(x) * static_cast<Wide>(x); }
#ifdef DMLGRAPH_DOUBLES
    static DMLGRAPH_INLINE Doubles wide_terms(Floats x) { return times(widened(x), widened(x)); }
#endif
};

template <class Wide>
struct Multiplying {
    using State = Wide;
    using Joining = Multiplying;
    static constexpr State start = 1;
    static DMLGRAPH_INLINE State join(State a, State b) { return a * b; }
};

template <class In, class Wide>
struct Multiply : Multiplying<Wide> {
    static DMLGRAPH_INLINE Wide term(In x) { return static_cast<Wide>(x); }
};

template <class In>
inline constexpr In lowest = is_float<In> ? static_cast<In>(-infinity) : least<In>;
template <>
inline constexpr float lowest<float> = -infinity;
template <class In>
inline constexpr In highest = greatest<In>;
template <>
inline constexpr float highest<float> = infinity;

template <class In>
struct Max {
    using State = In;
    using Joining = Max;
    static constexpr State start = lowest<In>;
    static DMLGRAPH_INLINE State term(In x) { return x; }
    static DMLGRAPH_INLINE State join(State a, State b) { return b > a ? b : a; }
    static DMLGRAPH_INLINE bool beats(In x, In y) { return x > y; }
};

template <class In>
struct Min {
    using State = In;
    using Joining = Min;
    static constexpr State start = highest<In>;
    static DMLGRAPH_INLINE State term(In x) { return x; }
    static DMLGRAPH_INLINE State join(State a, State b) { return b < a ? b : a; }
    static DMLGRAPH_INLINE bool beats(In x, In y) { return x < y; }
};

// Leaves `least` lanes, and returns the first one.
template <class Function, std::size_t width, std::size_t least = 1, class State>
DMLGRAPH_INLINE State fold(State* lane) {
    if constexpr (width == least) {
        return lane[0];
    } else {
        for (std::size_t j = 0; j < width / 2; ++j) {
            lane[j] = Function::join(lane[j], lane[j + width / 2]);
        }
        return fold<Function, width / 2, least>(lane);
    }
}

// How vectors of floats, each of an element's own state, are combined.
template <class Function>
struct Extremes {
    using States = Vector;
    static DMLGRAPH_INLINE States terms(const float* x) { return load(x); }
    static DMLGRAPH_INLINE States join(States a, States b) {
        return Function::start < 0 ? greater(b, a) : DMLGRAPH_LEVEL::lesser(b, a);
    }
};

// Elements converted to the type of the computation, a chunk at a time.
template <class In>
struct Elements {
    using Value = In;
    static constexpr std::size_t most = ~std::size_t{0};
    const In* take(const In* x, std::size_t) { return x; }
};

template <>
struct Elements<Half> {
    using Value = float;
    static constexpr std::size_t most = chunk;
    alignas(cache_line) float single[chunk];
    const float* take(const Half* x, std::size_t count) {
        to_single(x, single, count);
        return single;
    }
};

DMLGRAPH_INLINE std::size_t lesser(std::size_t a, std::size_t b) { return a < b ? a : b; }

}  // namespace
}  // namespace reduce
}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
