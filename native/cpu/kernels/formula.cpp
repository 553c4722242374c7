// The kernel of formulas: goes through the operations for a few vectors at a time.
#include <cstring>
#include <iterator>

#include "cpu/kernels/cast.h"
#include "cpu/kernels/division.h"
#include "cpu/kernels/formula.h"
#include "cpu/kernels/formula_functions.h"
#include "cpu/kernels/level.h"
#include "cpu/kernels/tables.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace formulas {
namespace {

constexpr int together = 8;  // vectors: finding the next operation takes as long as an operation on two
// Does something for each k below that. It is not a loop, since Clang unrolls none that begins where an operation does,
// and keeps the vectors that it goes through in memory.
#define TOGETHER(...) AT(0, __VA_ARGS__) AT(1, __VA_ARGS__) AT(2, __VA_ARGS__) AT(3, __VA_ARGS__) \
    AT(4, __VA_ARGS__) AT(5, __VA_ARGS__) AT(6, __VA_ARGS__) AT(7, __VA_ARGS__) static_assert(together == 8);
#define AT(number, ...) { constexpr int k = number; __VA_ARGS__; }
// Where three times as many vectors, and some numbers, fit into the registers.
#if defined(__AVX512F__) || defined(__aarch64__) || defined(_M_ARM64)
constexpr bool has_near = true;
#else
constexpr bool has_near = false;
#endif
constexpr std::size_t batch = static_cast<std::size_t>(together) * lanes;

// An operation whose operands have been found.
struct Found {
    const std::byte* first;
    const std::byte* second;
    std::size_t step;  // bytes to the next element of what first points to
    std::size_t second_step;
    float number, second_number;
    FormulaCode code;
};

DMLGRAPH_INLINE const float* floats(const std::byte* data) { return reinterpret_cast<const float*>(data); }

template <class Function>
DMLGRAPH_INLINE void with_memory(Vector (&x)[together], const std::byte* data) {
    const float* const m = floats(data);
    TOGETHER(x[k] = Function::of(x[k], load(m + k * lanes)))
}

template <class Function>
DMLGRAPH_INLINE void with_number(Vector (&x)[together], float number) {
    const Vector m = repeated(number);
    TOGETHER(x[k] = Function::of(x[k], m))
}

template <class Function>
DMLGRAPH_INLINE void with_vectors(Vector (&x)[together], const Vector (&m)[together]) {
    TOGETHER(x[k] = Function::of(x[k], m[k]))
}

template <class Function>
DMLGRAPH_INLINE void from_memory(Vector (&x)[together], const std::byte* data) {
    const auto* const from = reinterpret_cast<const typename Function::type*>(data);
    TOGETHER(x[k] = Function::of(from + k * lanes))
}

template <class Function>
DMLGRAPH_INLINE void with_itself(Vector (&x)[together]){TOGETHER(x[k] = Function::of(x[k]))}

// Quotients by a number that has a reciprocal for them.
DMLGRAPH_INLINE void divide(Vector (&x)[together], float divisor, float by) {
    Reciprocal reciprocal(divisor, by);
    TOGETHER(reciprocal.look_at(x[k]))
    if (reciprocal.fits_all()) {
        TOGETHER(x[k] = reciprocal.quotient(x[k]))
    } else {
        with_number<functions::divide>(x, divisor);
    }
}

constexpr float lane_numbers[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
static_assert(lanes <= std::size(lane_numbers));

// Elements of a sequence from `first` on: start + index * delta, where the index, the product and the sum are each
// rounded.
DMLGRAPH_INLINE void count(Vector (&x)[together], u64 first, float start, float delta) {
    first = in_place(first);
    if (first + batch > u64{1} << 24) {  // not every index is a float
        float numbers[batch];
        DMLGRAPH_LOOP
        for (u32 i = 0; i < batch; ++i) {
            numbers[i] = start + cast<float>(static_cast<u32>(first) + i) * delta;
        }
        return with_memory<functions::load>(x, reinterpret_cast<const std::byte*>(numbers));
    }
    const Vector base = sum(repeated(static_cast<float>(first)), load(lane_numbers));
    TOGETHER(x[k] = sum(repeated(start), times(sum(base, repeated(static_cast<float>(k * lanes))), repeated(delta))))
}

// `one` and `other` give the vector k.
template <class One, class Other>
DMLGRAPH_INLINE void select(Vector (&x)[together], const One& one,
                            const Other& other){TOGETHER(x[k] = selected(x[k], one(k), other(k)))}

DMLGRAPH_INLINE auto vectors_at(const std::byte* data) {
    return [m = floats(data)](int k) { return load(m + k * lanes); };
}

DMLGRAPH_INLINE auto repeating(float number) {
    return [m = repeated(number)](int) { return m; };
}

DMLGRAPH_INLINE void store_all(const Vector (&x)[together], float* to){TOGETHER(store(to + k * lanes, x[k]))}

DMLGRAPH_INLINE void store_all(const Vector (&x)[together], Half* to){TOGETHER(store_halves(to + k * lanes, x[k]))}
// CODE begins an operation. GO_ON ends one: the next one is found, and where its first operand is.
#ifdef DMLGRAPH_LABELS
#define CODE(name) code_##name:
#define GO_ON                            \
    ++now;                               \
    first = now->first + at * now->step; \
    DMLGRAPH_JUMP(labels[static_cast<int>(now->code)]);
#define LABEL(name) DMLGRAPH_ADDRESS_OF_LABEL(code_##name),
#define LABELS(name) LABEL(name) LABEL(name##_number) LABEL(name##_near) LABEL(name##_next)
#else
#define CODE(name) case FormulaCode::name:
#define GO_ON                            \
    ++now;                               \
    first = now->first + at * now->step; \
    continue;
#endif
#define EACH(name, done) CODE(name) done; GO_ON
#define IF_NEAR(name, done) CODE(name) if constexpr (has_near) { done; } GO_ON
#define PAIR(name)                                                        \
    EACH(name, with_memory<functions::name>(x, first))                    \
    EACH(name##_number, with_number<functions::name>(x, now->number))     \
    IF_NEAR(name##_near, with_vectors<functions::name>(x, near))          \
    IF_NEAR(name##_next, with_vectors<functions::name>(x, next))
#define LOAD(name) EACH(name, from_memory<functions::name>(x, first))
#define FUNCTION(name) EACH(name, with_itself<functions::name>(x))
#define SECOND (now->second + at * now->second_step)

// Stores the results for the elements begin … end − 1, whole batches. `counted`: how many elements of sequences come
// before them.
template <class Out>
void compute(const Found* operations, std::size_t begin, std::size_t end, Out* out, u64 counted) {
#ifdef DMLGRAPH_LABELS
    static const void* const labels[] = {DMLGRAPH_FORMULA_PAIRS(LABELS) DMLGRAPH_FORMULA_OTHERS(LABEL)};
#endif
    Vector x[together], near[together], next[together];
    with_number<functions::load>(x, 0.0f);
    with_number<functions::load>(near, 0.0f);
    with_number<functions::load>(next, 0.0f);
    for (std::size_t at = begin; at < end; at += batch) {
        const Found* now = operations;
        const std::byte* first = now->first + at * now->step;
#ifdef DMLGRAPH_LABELS
        DMLGRAPH_JUMP(labels[static_cast<int>(now->code)]);
#else
        for (bool is_done = false; !is_done;)
            switch (now->code) {
#endif
        DMLGRAPH_FORMULA_PAIRS(PAIR)
        IF_NEAR(fetch_near, with_memory<functions::load>(near, first))
        IF_NEAR(fetch_near_number, with_number<functions::load>(near, now->number))
        IF_NEAR(fetch_next, with_memory<functions::load>(next, first))
        IF_NEAR(fetch_next_number, with_number<functions::load>(next, now->number))
        EACH(select, select(x, vectors_at(first), vectors_at(SECOND)))
        EACH(select_number, select(x, repeating(now->number), vectors_at(SECOND)))
        EACH(select_or_number, select(x, vectors_at(first), repeating(now->second_number)))
        EACH(select_numbers, select(x, repeating(now->number), repeating(now->second_number)))
        DMLGRAPH_FORMULA_LOADS(LOAD)
        EACH(keep, store_all(x, const_cast<float*>(floats(first))))
        IF_NEAR(keep_near, with_vectors<functions::load>(near, x))
        IF_NEAR(keep_next, with_vectors<functions::load>(next, x))
        EACH(divide_by_reciprocal, divide(x, now->number, now->second_number))
        EACH(count, count(x, counted + at, now->number, now->second_number))
        DMLGRAPH_FORMULA_FUNCTIONS(FUNCTION)
        CODE(finish)
        CODE(finish_halves)
#ifndef DMLGRAPH_LABELS
        is_done = true;
    }
#endif
    store_all(x, out + at);
}
}

#undef TOGETHER
#undef AT
#undef CODE
#undef GO_ON
#undef LABEL
#undef LABELS
#undef EACH
#undef IF_NEAR
#undef PAIR
#undef LOAD
#undef FUNCTION
#undef SECOND

// The parts of a formula's immediates.
struct Formula {
    std::size_t operands, operations;
    const Immediate *items, *code, *constants;

    explicit Formula(const Immediate* given)
        : operands(given[0].u),
          operations(given[1].u),
          items(given + 2),
          code(items + operands),
          constants(code + operations) {}
};

bool changes_nothing(FormulaCode code, float number) {
    const bool is_nan = number != number;
    return (code == FormulaCode::add_number && bits_of(number) == bits_of(-0.0f)) ||
           (code == FormulaCode::multiply_number && number == 1.0f) ||
           ((code == FormulaCode::max_number || code == FormulaCode::min_number) && is_nan);
}

FormulaCode next(FormulaCode code, int by) { return static_cast<FormulaCode>(static_cast<int>(code) + by); }

// Finds what the operations take.
class Finding {
public:
    Finding(const Formula& formula, const Operand* in, float (*kept)[batch])
        : formula_(formula), in_(in), kept_(kept) {}

    void run(Found* found) const {
        for (std::size_t i = 0; i < formula_.operations; ++i) {
            const FormulaOperation given = FormulaOperation::of(formula_.code[i].u);
            Found made{nullptr, nullptr, 0, 0, 0.0f, 0.0f, given.code};
            if (takes_pair(given.code)) {
                find_pair(given, made);
            } else if (given.code == FormulaCode::count) {
                take(given.first, made.first, made.step, made.number);
                take(given.second, made.second, made.second_step, made.second_number);
            } else if (given.code == FormulaCode::select) {
                const int first = take(given.first, made.first, made.step, made.number);
                const int second = take(given.second, made.second, made.second_step, made.second_number);
                made.code = next(given.code, first + 2 * second);
            } else if (given.code == FormulaCode::fetch_near || given.code == FormulaCode::fetch_next) {
                made.code = next(given.code, take(given.first, made.first, made.step, made.number) ? 1 : 0);
            } else if (given.code <= FormulaCode::keep && take(given.first, made.first, made.step, made.number)) {
                made.number = number_of(given.code, made.first);
                made.code = FormulaCode::load_number;
            }
            if (!changes_nothing(made.code, made.number)) {
                *found++ = made;
            }
        }
    }

private:
    // Whether it is a number; else where the elements are, and how far apart.
    bool take(std::uint8_t source, const std::byte*& data, std::size_t& step, float& number) const {
        if (source >= static_cast<u8>(FormulaSource::constant)) {
            number = static_cast<float>(formula_.constants[source - static_cast<u8>(FormulaSource::constant)].f);
            return true;
        }
        if (source >= static_cast<u8>(FormulaSource::kept)) {
            data = reinterpret_cast<const std::byte*>(kept_[source - static_cast<u8>(FormulaSource::kept)]);
            return false;
        }
        data = static_cast<const std::byte*>(in_[source].data);
        step = formula_.items[source].u;
        if (in_[source].scalar && step == sizeof(float)) {
            number = *floats(data);
        }
        return in_[source].scalar;
    }

    void find_pair(const FormulaOperation& given, Found& made) const {
        constexpr int number_of = static_cast<int>(FormulaCode::load_number),
                      near_of = static_cast<int>(FormulaCode::load_near);
        const int in = given.first - static_cast<int>(FormulaSource::near);
        if (in >= 0 && in < most_formula_registers) {
            made.code = next(given.code, near_of + in);
            return;
        }
        made.code = next(given.code, take(given.first, made.first, made.step, made.number) ? number_of : 0);
        const bool is_nan = made.number != made.number;
        if (made.code == FormulaCode::max_number && !is_nan) {
            made.code = FormulaCode::above_number;
        } else if (made.code == FormulaCode::min_number && !is_nan) {
            made.code = FormulaCode::below_number;
        } else if (made.code == FormulaCode::divide_number && Reciprocal::fits(made.number)) {
            made.code = FormulaCode::divide_by_reciprocal;
            made.second_number = 1.0f / made.number;
        }
    }

    // What a load of a single element gives everywhere.
    static float number_of(FormulaCode code, const std::byte* data) {
        if (code == FormulaCode::load_halves) {
            return single_of(*reinterpret_cast<const Half*>(data));
        }
        const u8 byte = *reinterpret_cast<const u8*>(data);
        return code == FormulaCode::load_bytes ? static_cast<float>(byte) : float_of(byte != 0 ? ~0u : 0u);
    }

    const Formula& formula_;
    const Operand* in_;
    float (*kept_)[batch];
};

// Copies as memcpy does, but without a call from a cache line on: rows are often shorter than a batch.
DMLGRAPH_INLINE void copy_short(std::byte* to, const std::byte* from, std::size_t bytes) {
    if (bytes < cache_line) {
        ::memcpy(to, from, bytes);
        return;
    }
    for (std::size_t at = 0; at < bytes - cache_line; at += cache_line) {
        ::memcpy(to + at, from + at, cache_line);
    }
    ::memcpy(to + bytes - cache_line, from + bytes - cache_line, cache_line);
}

// The elements after the first `whole`, in copies that are a batch long.
template <class Out>
void run_rest(const Formula& formula, const Call& call, std::size_t whole, float (*kept)[batch], Found* found) {
    alignas(cache_line) float copies[most_formula_operands][batch];
    alignas(cache_line) Out results[batch];
    Operand in[most_formula_operands];
    const std::size_t rest = call.count - whole;
    for (std::size_t k = 0; k < formula.operands; ++k) {
        in[k] = call.in[k];
        if (!in[k].scalar) {
            const std::size_t item = formula.items[k].u;
            const auto* const from = static_cast<const std::byte*>(in[k].data) + whole * item;
            auto* const to = reinterpret_cast<std::byte*>(copies[k]);
            for (std::size_t at = rest * item / cache_line * cache_line; at < batch * item; at += cache_line) {
                ::memset(to + at, 0, cache_line);
            }
            copy_short(to, from, rest * item);
            in[k].data = to;
        }
    }
    Finding(formula, in, kept).run(found);
    compute(found, 0, batch, results, call.first + whole);
    copy_short(reinterpret_cast<std::byte*>(static_cast<Out*>(call.out) + whole),
               reinterpret_cast<const std::byte*>(results), rest * sizeof(Out));
}

template <class Out>
void run(const Formula& formula, const Call& call) {
    alignas(cache_line) float kept[most_formula_kept][batch];
    Found found[most_formula_operations];
    const std::size_t whole = call.count / batch * batch;
    if (whole > 0) {
        Finding(formula, call.in, kept).run(found);
        compute(found, 0, whole, static_cast<Out*>(call.out), call.first);
    }
    if (whole < call.count) {
        run_rest<Out>(formula, call, whole, kept, found);
    }
}

void formula(const Call& call) noexcept {
    const Formula given(call.immediates);
    const FormulaOperation last = FormulaOperation::of(given.code[given.operations - 1].u);
    if (last.code == FormulaCode::finish_halves) {
        run<Half>(given, call);
    } else {
        run<float>(given, call);
    }
}

}  // namespace
}  // namespace formulas

constexpr FormulaKernel formula_kernels{formulas::formula, formulas::has_near ? most_formula_registers : 0};

}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
