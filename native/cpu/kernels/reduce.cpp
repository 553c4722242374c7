// Reductions: a function says how an element becomes a partial result, and how two of those are combined.
#include "cpu/kernels/reduce_tables.h"

#include <string.h>

#include "cpu/kernels/doubles.h"
#include "cpu/kernels/math.h"
#include "cpu/kernels/part_vector.h"
#include "cpu/kernels/tables.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace reduce {
namespace {

// Several vectors of each level; otherwise additions would wait for each other.
template <class State>
constexpr std::size_t lanes_of = 256 / sizeof(State);

// Functions on elements of type In (Half arrives as float); State is the type of partial results.

// How two partial results are combined. Code that does not depend on the element type is instantiated for this type only.
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

// How vectors of floats, each of an element's own state, are combined.
template <class Function>
struct Extremes {
    using States = Vector;
    static DMLGRAPH_INLINE States terms(const float* x) { return load(x); }
    static DMLGRAPH_INLINE States join(States a, States b) { return Function::start < 0 ? greater(b, a) : DMLGRAPH_LEVEL::lesser(b, a); }
};

// The extreme of floats in any order. `length` is a vector's at least: the last one may have elements of the one before.
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
DMLGRAPH_INLINE std::size_t join_groups([[maybe_unused]] typename Function::State* lane, [[maybe_unused]] const In* x, std::size_t i,
                                        [[maybe_unused]] std::size_t length) {
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

// A sum of floats in double: of so many lanes, which begin with those of `lane`, and of the elements after the last whole group
// of these, which are added to the first lanes.
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

// Lanes are combined in the same order at every level: many, then, for what is left, few.
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

template <class Function>
void start(void* states, std::size_t count) noexcept {
    auto* state = static_cast<typename Function::State*>(states);
    for (std::size_t i = 0; i < count; ++i) {
        state[i] = Function::start;
    }
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

// So few columns, whose states stay in registers.
template <class Function, std::size_t count, class In>
DMLGRAPH_INLINE void few_columns(typename Function::State* state, const char* line, std::ptrdiff_t stride, std::size_t length) {
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

// `count` vectors of columns, whose states stay in registers. The last one ends with column `end`: it may have columns of the
// one before.
template <class Vectors, std::size_t count, class State>
DMLGRAPH_INLINE void vectors_of_columns(State* state, const char* line, std::ptrdiff_t stride, std::size_t end, std::size_t length) {
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
DMLGRAPH_INLINE void part_of_vector(float* state, const char* line, std::ptrdiff_t stride, std::size_t count, std::size_t length) {
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
        const std::size_t some = vectors == most + 1 ? most - 1 : lesser(vectors, most), end = lesser(left, some * width);
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

template <class Function>
void merge(void* states, const void* later, std::size_t count) noexcept {
    auto* state = static_cast<typename Function::State*>(states);
    const auto* other = static_cast<const typename Function::State*>(later);
    for (std::size_t i = 0; i < count; ++i) {
        state[i] = Function::join(state[i], other[i]);
    }
}

template <class Out, class State>
DMLGRAPH_INLINE Out result(State value) {
    if constexpr (is_same<Out, Half> && is_same<State, double>) {
        // Rounded once: the bits that float32 cannot hold set its last bit.
        constexpr u64 cut = (u64{1} << 29) - 1;
        const u64 bits = bits_of(value);
        return half_of(static_cast<float>(double_of((bits & ~cut) | ((bits & cut) != 0 ? cut + 1 : 0))));
    } else if constexpr (is_same<Out, Half>) {
        return half_of(value);
    } else {
        return static_cast<Out>(value);
    }
}

template <class State, class Out, bool average = false>
void finish(const void* states, void* out, std::size_t count, [[maybe_unused]] std::uint64_t length) noexcept {
    const auto* state = static_cast<const State*>(states);
    DMLGRAPH_LOOP
    for (std::size_t i = 0; i < count; ++i) {
        if constexpr (average) {
            static_cast<Out*>(out)[i] = result<Out>(state[i] / static_cast<State>(length));
        } else {
            static_cast<Out*>(out)[i] = result<Out>(state[i]);
        }
    }
}

// Positions of extremes. If a NaN comes first, the state stays NaN, because no element is greater.
template <class In>
struct Found {
    i64 place;  // -1: none yet
    In value;
};

template <class Function, class In, bool last>
DMLGRAPH_INLINE void offer(Found<In>& best, In value, i64 place) {
    const bool better = Function::beats(value, best.value) || (last && value == best.value);
    if (better || (best.place < 0 && (value == value || place == 0))) {
        best = {place, value};
    }
}

template <class In>
void start_places(void* states, std::size_t count) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
        static_cast<Found<In>*>(states)[i] = {-1, In{0}};
    }
}

template <class Function, class In, class Value, bool last>
void row_places(void* states, const void* in, std::size_t count, std::size_t length, std::uint64_t first) noexcept {
    const auto* all = static_cast<const In*>(in);
    if constexpr (is_same<In, Value>) {
        if (length == 1 && first == 0) {
            for (std::size_t r = 0; r < count; ++r) {
                static_cast<Found<Value>*>(states)[r] = {0, all[r]};
            }
            return;
        }
    }
    Elements<In> elements;
    for (std::size_t r = 0; r < count; ++r, all += length) {
        Found<Value>& best = static_cast<Found<Value>*>(states)[r];
        for (std::size_t done = 0; done < length;) {
            const std::size_t part = lesser(length - done, 4 * chunk < Elements<In>::most ? 4 * chunk : chunk);
            const Value* x = elements.take(all + done, part);
            const auto place = static_cast<i64>(first + done);
            if (best.place < 0) {
                offer<Function, Value, last>(best, x[0], place);
            }
            // The position is searched only if the chunk has a better element.
            const Value extreme = row<Function>(x, part);
            if (Function::beats(extreme, best.value) || (last && extreme == best.value) || best.place < 0) {
                constexpr std::size_t step = 32;
                std::size_t k = 0;
                for (; k + step <= part; k += step) {
                    const Value* const some = x + (last ? part - k - step : k);
                    int equal = 0;
                    for (std::size_t j = 0; j < step; ++j) {
                        equal |= some[j] == extreme ? 1 : 0;
                    }
                    if (equal != 0) {
                        break;
                    }
                }
                for (; k < part; ++k) {
                    const std::size_t i = last ? part - 1 - k : k;
                    if (x[i] == extreme) {
                        offer<Function, Value, last>(best, x[i], place + static_cast<i64>(i));
                        break;
                    }
                }
            }
            done += part;
        }
    }
}

// An integer as wide as an element, if it can count lines.
template <class Value>
struct Counter {
    using Type = i32;
};
template <>
struct Counter<i64> {
    using Type = i64;
};
template <>
struct Counter<u64> {
    using Type = i64;
};

template <class Function, class In, class Value, bool last>
void column_places(void* states, const void* in, std::ptrdiff_t stride, std::size_t count, std::size_t length,
                   std::uint64_t first) noexcept {
    using Line = typename Counter<Value>::Type;
    constexpr std::size_t most = 128;
    auto* best = static_cast<Found<Value>*>(states);
    Elements<In> elements;
    Value value[most];
    Line found[most];  // the line of the value; -1: none of these
    for (std::size_t done = 0; done < count;) {
        const std::size_t part = lesser(count - done, most);
        const auto* line = static_cast<const char*>(in) + done * sizeof(In);
        // The first line of all is taken with its NaN. Later parts leave out NaN until each column has an element.
        std::size_t i = 0;
        if (first == 0) {
            const Value* x = elements.take(reinterpret_cast<const In*>(line), part);
            for (std::size_t c = 0; c < part; ++c) {
                value[c] = x[c];
                found[c] = 0;
            }
            ++i, line += stride;
        } else {
            for (bool is_new = true; i < length; ++i, line += stride) {
                is_new = false;
                for (std::size_t c = 0; c < part; ++c) {
                    is_new |= best[done + c].place < 0;
                }
                if (!is_new) {
                    break;
                }
                const Value* x = elements.take(reinterpret_cast<const In*>(line), part);
                for (std::size_t c = 0; c < part; ++c) {
                    offer<Function, Value, last>(best[done + c], x[c], static_cast<i64>(first + i));
                }
            }
            for (std::size_t c = 0; c < part; ++c) {
                value[c] = best[done + c].value;
                found[c] = -1;
            }
        }
        for (; i < length; ++i, line += stride) {
            const Value* x = elements.take(reinterpret_cast<const In*>(line), part);
            const auto here = static_cast<Line>(i);
            DMLGRAPH_LOOP
            for (std::size_t c = 0; c < part; ++c) {
                const bool better = last ? Function::beats(x[c], value[c]) | (x[c] == value[c]) : Function::beats(x[c], value[c]);
                value[c] = better ? x[c] : value[c];
                found[c] = better ? here : found[c];
            }
        }
        for (std::size_t c = 0; c < part; ++c) {
            if (found[c] >= 0) {
                best[done + c] = {static_cast<i64>(first) + static_cast<i64>(found[c]), value[c]};
            }
        }
        done += part;
    }
}

template <class Function, class In, bool last>
void merge_places(void* states, const void* later, std::size_t count) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
        const auto& other = static_cast<const Found<In>*>(later)[i];
        if (other.place >= 0) {
            offer<Function, In, last>(static_cast<Found<In>*>(states)[i], other.value, other.place);
        }
    }
}

// The positions only, for any type of the values beside them.
template <class Out>
void finish_places(const void* states, void* out, std::size_t count, std::uint64_t) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
        i64 place;
        memcpy(&place, static_cast<const char*>(states) + i * sizeof(Found<i64>), sizeof(place));
        static_cast<Out*>(out)[i] = static_cast<Out>(place < 0 ? 0 : place);
    }
}

template <class Function, class In, class Out, bool average>
constexpr Reduction plain_values() {
    using State = typename Function::State;
    using Joining = typename Function::Joining;
    return {sizeof(State), start<Joining>, rows<Function, In>, columns<Function, In>, merge<Joining>,
            finish<State, Out, average>};
}

template <class Out, bool average>
constexpr Reduction of_squares = plain_values<SumSquare<float, double>, float, Out, average>();

template <class Function, class In, class Out, bool average = false>
constexpr Reduction values() {
    Reduction result = plain_values<Function, In, Out, average>();
    if constexpr (is_same<Function, Sum<float, double>> && is_same<In, float>) {
        result.of_squares = &of_squares<Out, average>;
    }
    return result;
}

template <template <class> class Extreme, class In, class Value, class Out, bool last>
constexpr Reduction places() {
    static_assert(sizeof(Found<Value>) == sizeof(Found<i64>));
    return {sizeof(Found<Value>), start_places<Value>, row_places<Extreme<Value>, In, Value, last>,
            column_places<Extreme<Value>, In, Value, last>, merge_places<Extreme<Value>, Value, last>,
            finish_places<Word<Out>>};
}

#define LINE(name, in, out, ...) {ReduceFunction::name, data_type<in>, data_type<out>, __VA_ARGS__},
#define OF_FLOATS(name, function, ...)                                              \
    LINE(name, float, float, values<function<float, double>, float, float __VA_ARGS__>())  \
    LINE(name, float, double, values<function<float, double>, float, double __VA_ARGS__>()) \
    LINE(name, Half, Half, values<function<float, double>, Half, Half __VA_ARGS__>())      \
    LINE(name, Half, double, values<function<float, double>, Half, double __VA_ARGS__>())
#define OF_INTEGERS(name, function)                             \
    LINE(name, i32, i32, values<function<i32, u32>, i32, i32>()) \
    LINE(name, u32, u32, values<function<u32, u32>, u32, u32>()) \
    LINE(name, i64, i64, values<function<i64, u64>, i64, i64>()) \
    LINE(name, u64, u64, values<function<u64, u64>, u64, u64>())
#define EXTREME(type, name, function) LINE(name, type, type, values<function<type>, type, type>())
#define EXTREMES(name, function)                                 \
    DMLGRAPH_INTEGERS(EXTREME, name, function)                   \
    EXTREME(float, name, function)                               \
    LINE(name, Half, Half, values<function<float>, Half, Half>()) \
    LINE(name, Half, float, values<function<float>, Half, float>())
#define PLACE(type, value, name, function, last)                             \
    LINE(name, type, u32, places<function, type, value, u32, last>())        \
    LINE(name, type, i32, places<function, type, value, i32, last>())        \
    LINE(name, type, u64, places<function, type, value, u64, last>())        \
    LINE(name, type, i64, places<function, type, value, i64, last>())
#define PLACE_OF(type, name, function, last) PLACE(type, type, name, function, last)
#define PLACES(name, function, last)                    \
    DMLGRAPH_INTEGERS(PLACE_OF, name, function, last)   \
    PLACE(float, float, name, function, last)           \
    PLACE(Half, float, name, function, last)
#define COMMA_TRUE , true

const ReductionEntry entries[] = {
    OF_FLOATS(SUM, Sum) OF_INTEGERS(SUM, Sum)
    OF_FLOATS(AVERAGE, Sum, COMMA_TRUE)
    LINE(SUM_ALIKE, float, double, values<SumAlike<float, double>, float, double>())
    OF_FLOATS(MULTIPLY, Multiply) OF_INTEGERS(MULTIPLY, Multiply)
    OF_FLOATS(SUM_ABS, SumAbs) OF_INTEGERS(SUM_ABS, SumAbs)
    OF_FLOATS(SUM_SQUARE, SumSquare) OF_INTEGERS(SUM_SQUARE, SumSquare)
    OF_FLOATS(SUM_SQUARE_WIDE, SumSquareWide)
    EXTREMES(MAX, Max) EXTREMES(MIN, Min)
    PLACES(ARGMAX, Max, false) PLACES(ARGMIN, Min, false)
    PLACES(LAST_ARGMAX, Max, true) PLACES(LAST_ARGMIN, Min, true)
};

}  // namespace
}  // namespace reduce

ReductionEntries reductions() { return reduce::entries; }

}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
