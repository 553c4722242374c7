#include "cpu/kernels/attention.h"

#include "cpu/kernels/level.h"
#include "cpu/kernels/tile.h"
#include "cpu/kernels/vector_exp.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace attention {
namespace {

using i64 = std::int64_t;

constexpr int together = 4;  // vectors whose powers are computed at a time

// Lines of results, in registers.
template <int rows, int vectors>
struct Sums {
    Vector sums[rows][vectors];

    DMLGRAPH_INLINE Sums() { set_all(sums, repeated(0.0f)); }
    DMLGRAPH_INLINE void add(int i, float a, const Vector (&b)[vectors]) {
        const Vector each = repeated(a);
        DMLGRAPH_UNROLL
        for (int j = 0; j < vectors; ++j) {
            sums[i][j] = product_sum(each, b[j], sums[i][j]);
        }
    }
};

template <int vectors>
DMLGRAPH_INLINE void load_line(Vector (&line)[vectors], const float* from) {
    DMLGRAPH_UNROLL
    for (int j = 0; j < vectors; ++j) {
        line[j] = load(from + j * lanes);
    }
}

// The rows of `a` lie `call.row` floats apart: a pointer for each three of them, as many as one address can reach.
template <int rows, int vectors>
DMLGRAPH_INLINE void add_along(Sums<rows, vectors>& sums, const LineSumsCall& call, const float* a) {
    constexpr int reached = 3, pointers = (rows + reached - 1) / reached;
    const i64 step = call.row;
    const float* from[pointers];
    DMLGRAPH_UNROLL
    for (int p = 0; p < pointers; ++p) {
        from[p] = a + reached * p * step;
    }
    const float* b = call.b;
    for (i64 k = call.depth; k > 0; --k, b += vectors * lanes) {
        Vector line[vectors];
        load_line(line, b);
        DMLGRAPH_UNROLL
        for (int i = 0; i < rows; ++i) {
            sums.add(i, from[i / reached][i % reached * step], line);
        }
        DMLGRAPH_UNROLL
        for (int p = 0; p < pointers; ++p) {
            ++from[p];
        }
    }
}

// The rows of `a` lie side by side.
template <int rows, int vectors>
DMLGRAPH_INLINE void add_across(Sums<rows, vectors>& sums, const LineSumsCall& call, const float* a) {
    const float* b = call.b;
    for (i64 k = call.depth; k > 0; --k, a += call.depth_step, b += vectors * lanes) {
        Vector line[vectors];
        load_line(line, b);
        DMLGRAPH_UNROLL
        for (int i = 0; i < rows; ++i) {
            sums.add(i, a[i], line);
        }
    }
}

template <int rows, int vectors>
void some_lines(const LineSumsCall& call, i64 first) noexcept {
    Sums<rows, vectors> sums;
    if (call.depth_step == 1) {
        add_along(sums, call, call.a + first * call.row);
    } else {
        add_across(sums, call, call.a + first);
    }
    float* const c = call.c + first * vectors * lanes;
    if (call.factors != nullptr) {
        Vector factors[vectors];
        load_line(factors, call.factors);
        DMLGRAPH_UNROLL
        for (int i = 0; i < rows; ++i) {
            DMLGRAPH_UNROLL
            for (int j = 0; j < vectors; ++j) {
                sums.sums[i][j] = product_sum(load(c + (i * vectors + j) * lanes), factors[j], sums.sums[i][j]);
            }
        }
    }
    DMLGRAPH_UNROLL
    for (int i = 0; i < rows; ++i) {
        DMLGRAPH_UNROLL
        for (int j = 0; j < vectors; ++j) {
            store(c + (i * vectors + j) * lanes, sums.sums[i][j]);
        }
    }
}

using SomeLines = void (*)(const LineSumsCall& call, i64 first) noexcept;

#define HEIGHT(rows) {some_lines<rows, 1>, some_lines<rows, 2>},
constexpr SomeLines some_lines_of[][most_query_vectors] = {HEIGHT(1) HEIGHT(2) HEIGHT(3) HEIGHT(4) HEIGHT(5) HEIGHT(6)
#if !defined(DMLGRAPH_X86) || defined(__AVX512F__)
                                                               HEIGHT(7) HEIGHT(8) HEIGHT(9) HEIGHT(10) HEIGHT(11)
                                                                   HEIGHT(12)
#endif
#if defined(__AVX512F__)
                                                                       HEIGHT(13) HEIGHT(14)
#endif
};
#undef HEIGHT
static_assert(sizeof(some_lines_of) / sizeof(some_lines_of[0]) == most_rows);

void lines(const LineSumsCall& call) noexcept {
    const i64 blocks = (call.rows + most_rows - 1) / most_rows;
    for (i64 block = 0, first = 0; block < blocks; ++block) {
        const i64 last = call.rows * (block + 1) / blocks;
        some_lines_of[last - first - 1][call.vectors - 1](call, first);
        first = last;
    }
}

// What scores have been so far, for each lane; the powers of a step of several vectors.
struct Weighing {
    Vector greatest, sums[together];

    DMLGRAPH_INLINE explicit Weighing(Vector most) : greatest(most) { set_all(sums, repeated(0.0f)); }
    template <int count>
    DMLGRAPH_INLINE void weigh(float* scores, i64 step) {
        Vector x[count];
        DMLGRAPH_UNROLL
        for (int i = 0; i < count; ++i) {
            x[i] = difference(load(scores + i * step), greatest);
        }
        exp_below_zero(x);
        DMLGRAPH_UNROLL
        for (int i = 0; i < count; ++i) {
            store(scores + i * step, x[i]);
            sums[i] = sum(sums[i], x[i]);
        }
    }
    DMLGRAPH_INLINE void weigh_all(float* scores, i64 step, i64 count) {
        i64 k = 0;
        for (; k + together <= count; k += together) {
            weigh<together>(scores + k * step, step);
        }
        for (; k < count; ++k) {
            weigh<1>(scores + k * step, step);
        }
    }
    DMLGRAPH_INLINE Vector total() const { return sum(sum(sums[0], sums[1]), sum(sums[2], sums[3])); }
};
static_assert(together == 4);

// The greatest of vectors `step` floats apart; NaN is ignored.
DMLGRAPH_INLINE Vector greatest_of(const float* scores, i64 step, i64 count, Vector least) {
    Vector most[together] = {least, least, least, least};
    i64 k = 0;
    for (; k + together <= count; k += together) {
        DMLGRAPH_UNROLL
        for (int i = 0; i < together; ++i) {
            most[i] = greater(load(scores + (k + i) * step), most[i]);
        }
    }
    for (; k < count; ++k) {
        most[0] = greater(load(scores + k * step), most[0]);
    }
    return greater(greater(most[0], most[1]), greater(most[2], most[3]));
}

DMLGRAPH_INLINE Vector power(Vector x) {
    Vector one[1] = {x};
    exp_below_zero(one);
    return one[0];
}

void line_weights(const LineWeightsCall& call) noexcept {
    const i64 step = static_cast<i64>(call.vectors) * lanes;
    for (i64 j = 0; j < step; j += lanes) {
        const Vector before = load(call.greatest + j);
        Weighing weighing(greatest_of(call.scores + j, step, call.keys, before));
        weighing.weigh_all(call.scores + j, step, call.keys);
        const Vector factor = power(difference(before, weighing.greatest));
        store(call.greatest + j, weighing.greatest);
        store(call.factors + j, factor);
        store(call.sums + j, product_sum(load(call.sums + j), factor, weighing.total()));
    }
}

// All lanes, combined with their neighbours in the other half.
template <int width = lanes, class Join>
DMLGRAPH_INLINE float folded(float* lane, const Join& join) {
    if constexpr (width == 1) {
        return lane[0];
    } else {
        for (int i = 0; i < width / 2; ++i) {
            lane[i] = join(lane[i], lane[i + width / 2]);
        }
        return folded<width / 2>(lane, join);
    }
}

DMLGRAPH_INLINE float added(Vector x) {
    float lane[lanes];
    store(lane, x);
    return folded(lane, [](float a, float b) { return a + b; });
}

void weights(const WeightsCall& call) noexcept {
    const float before = *call.greatest;
    float lane[lanes];
    store(lane, greatest_of(call.scores, lanes, call.count / lanes, repeated(before)));
    const float most = folded(lane, [](float a, float b) { return a > b ? a : b; });
    Weighing weighing(repeated(most));
    weighing.weigh_all(call.scores, lanes, call.count / lanes);
    store(lane, power(repeated(before - most)));
    *call.greatest = most;
    *call.factor = lane[0];
    *call.sum = multiply_add(*call.sum, lane[0], added(weighing.total()));
}

template <int rows, int columns>
DMLGRAPH_INLINE void some_dots(const DotsCall& call, i64 first) {
    Vector sums[rows][columns];
    set_all(sums, repeated(0.0f));
    const float* const b = call.b + first * call.b_step;
    const auto add = [&](const auto& read, i64 at) {
        Vector column[columns];
        DMLGRAPH_UNROLL
        for (int j = 0; j < columns; ++j) {
            column[j] = read(b + j * call.b_step + at);
        }
        DMLGRAPH_UNROLL
        for (int i = 0; i < rows; ++i) {
            const Vector row = read(call.a + i * call.a_step + at);
            DMLGRAPH_UNROLL
            for (int j = 0; j < columns; ++j) {
                sums[i][j] = product_sum(row, column[j], sums[i][j]);
            }
        }
    };
    i64 at = 0;
    for (; at + lanes <= call.depth; at += lanes) {
        add([](const float* from) { return load(from); }, at);
    }
    if (at < call.depth) {
        const Part rest = part(0, static_cast<int>(call.depth - at));
        add([&](const float* from) { return load_part(from, rest, repeated(0.0f)); }, at);
    }
    DMLGRAPH_UNROLL
    for (int i = 0; i < rows; ++i) {
        DMLGRAPH_UNROLL
        for (int j = 0; j < columns; ++j) {
            call.c[i * call.c_step + first + j] = added(sums[i][j]);
        }
    }
}

template <int rows>
void row_dots(const DotsCall& call) {
    constexpr int several = rows <= 2 ? 4 : 2;
    i64 j = 0;
    for (; j + several <= call.columns; j += several) {
        some_dots<rows, several>(call, j);
    }
    for (; j < call.columns; ++j) {
        some_dots<rows, 1>(call, j);
    }
}

void dots(const DotsCall& call) noexcept {
    switch (call.rows) {
        case 1: return row_dots<1>(call);
        case 2: return row_dots<2>(call);
        case 3: return row_dots<3>(call);
        default: return row_dots<4>(call);
    }
}

// `get` and `put` read and write a vector, or a part of one.
template <int rows, int vectors, class Get, class Put>
DMLGRAPH_INLINE void mix_columns(const MixCall& call, i64 first, const Get& get, const Put& put) {
    Sums<rows, vectors> sums;
    const float* b = call.b + first;
    for (i64 k = 0; k < call.depth; ++k, b += call.b_step) {
        Vector line[vectors];
        DMLGRAPH_UNROLL
        for (int j = 0; j < vectors; ++j) {
            line[j] = get(b + j * lanes);
        }
        DMLGRAPH_UNROLL
        for (int i = 0; i < rows; ++i) {
            sums.add(i, call.a[i * call.a_step + k], line);
        }
    }
    DMLGRAPH_UNROLL
    for (int i = 0; i < rows; ++i) {
        DMLGRAPH_UNROLL
        for (int j = 0; j < vectors; ++j) {
            float* const to = call.c + i * call.c_step + first + j * lanes;
            const Vector sum = sums.sums[i][j];
            put(to, call.factors == nullptr ? sum : product_sum(get(to), repeated(call.factors[i]), sum));
        }
    }
}

template <int rows>
void mix_rows(const MixCall& call) {
    constexpr int several = rows <= 2 ? 4 : 2;
    const auto get = [](const float* from) { return load(from); };
    const auto put = [](float* to, Vector x) { store(to, x); };
    i64 j = 0;
    for (; j + several * lanes <= call.columns; j += several * lanes) {
        mix_columns<rows, several>(call, j, get, put);
    }
    for (; j + lanes <= call.columns; j += lanes) {
        mix_columns<rows, 1>(call, j, get, put);
    }
    if (j < call.columns) {
        const Part rest = part(0, static_cast<int>(call.columns - j));
        mix_columns<rows, 1>(
            call, j, [&](const float* from) { return load_part(from, rest, repeated(0.0f)); },
            [&](float* to, Vector x) { store_part(to, x, rest); });
    }
}

void mix(const MixCall& call) noexcept {
    switch (call.rows) {
        case 1: return mix_rows<1>(call);
        case 2: return mix_rows<2>(call);
        case 3: return mix_rows<3>(call);
        default: return mix_rows<4>(call);
    }
}

}  // namespace
}  // namespace attention

constexpr AttentionKernels attention_kernels{lanes,           attention::lines,   attention::line_weights,
                                             attention::dots, attention::weights, attention::mix};

}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
