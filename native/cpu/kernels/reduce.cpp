// Reductions: a function says how an element becomes a partial result, and how two of those are combined.
#include "cpu/kernels/reduce.h"
#include "cpu/kernels/level.h"
#include "cpu/kernels/reduce_columns.h"
#include "cpu/kernels/reduce_places.h"
#include "cpu/kernels/reduce_rows.h"
#include "cpu/kernels/tables.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace reduce {
namespace {

template <class Function>
void start(void* states, std::size_t count) noexcept {
    auto* state = static_cast<typename Function::State*>(states);
    for (std::size_t i = 0; i < count; ++i) {
        state[i] = Function::start;
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

template <class Function, class In, class Out, bool average>
constexpr Reduction plain_values() {
    using State = typename Function::State;
    using Joining = typename Function::Joining;
    return {sizeof(State),         start<Joining>, rows<Function, In>,
            columns<Function, In>, merge<Joining>, finish<State, Out, average>};
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
    return {sizeof(Found<Value>),
            start_places<Value>,
            row_places<Extreme<Value>, In, Value, last>,
            column_places<Extreme<Value>, In, Value, last>,
            merge_places<Extreme<Value>, Value, last>,
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
    OF_FLOATS(SUM, Sum) OF_INTEGERS(SUM, Sum) OF_FLOATS(AVERAGE, Sum, COMMA_TRUE)
        LINE(SUM_ALIKE, float, double, values<SumAlike<float, double>, float, double>()) OF_FLOATS(MULTIPLY, Multiply)
            OF_INTEGERS(MULTIPLY, Multiply) OF_FLOATS(SUM_ABS, SumAbs) OF_INTEGERS(SUM_ABS, SumAbs) OF_FLOATS(
                SUM_SQUARE, SumSquare) OF_INTEGERS(SUM_SQUARE, SumSquare) OF_FLOATS(SUM_SQUARE_WIDE, SumSquareWide)
                EXTREMES(MAX, Max) EXTREMES(MIN, Min) PLACES(ARGMAX, Max, false) PLACES(ARGMIN, Min, false)
                    PLACES(LAST_ARGMAX, Max, true) PLACES(LAST_ARGMIN, Min, true)};

}  // namespace
}  // namespace reduce

constexpr ReductionKernels reductions_kernels{reduce::entries};

}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
