// Maxima and sums of the taps of windows.
#include "cpu/kernels/pooling.h"

#include "cpu/kernels/combine_lines.h"
#include "cpu/kernels/find_maxima.h"
#include "cpu/kernels/half_vector.h"
#include "cpu/kernels/level.h"
#include "cpu/kernels/part_vector.h"
#include "cpu/kernels/picture_row.h"
#include "cpu/kernels/pool_cells.h"
#include "cpu/kernels/types.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace pooling {
namespace {

struct Greater {
    template <class T>
    DMLGRAPH_INLINE T operator()(T total, T next) const {
        return next > total ? next : total;
    }
    DMLGRAPH_INLINE Vector operator()(Vector total, Vector next) const { return greater(next, total); }
};

// Sums begin with 0: a sum of −0 is 0.
struct Sum {
    template <class T>
    DMLGRAPH_INLINE T operator()(T total, T next) const {
        return total + next;
    }
    DMLGRAPH_INLINE Vector operator()(Vector total, Vector next) const { return sum(total, next); }
};

// A result of a row whose taps do not all exist.
template <class Function, class T>
DMLGRAPH_ONCE T at_edge(const RowsCall& call, const T* in, std::int64_t i) {
    const Function function;
    T total = *static_cast<const T*>(call.start);
    std::int64_t x = call.first + i * call.stride;
    for (std::int64_t t = 0; t < call.taps; ++t, x += call.dilation) {
        if (x >= 0 && x < call.size) {
            total = function(total, in[x]);
        }
    }
    return total;
}

constexpr int most_in_row = 3;  // taps that are combined in one pass along a row

template <class Function, class T, int stride, int taps>
DMLGRAPH_INLINE void plain_row(T* out, const T* in, std::int64_t dilation, std::int64_t count, T start,
                               bool continues) {
    const Function function;
    const auto combined = [&](T total, std::int64_t i) {
        DMLGRAPH_UNROLL
        for (int t = 0; t < taps; ++t) {
            total = function(total, in[i * stride + t * dilation]);
        }
        return total;
    };
    if (continues) {
        DMLGRAPH_LOOP
        for (std::int64_t i = 0; i < count; ++i) {
            out[i] = combined(out[i], i);
        }
    } else {
        DMLGRAPH_LOOP
        for (std::int64_t i = 0; i < count; ++i) {
            out[i] = combined(start, i);
        }
    }
}

// The elements in[0], in[stride], … of as many results as a vector has.
template <int stride>
DMLGRAPH_INLINE Vector spaced(const float* in) {
    if constexpr (stride == 1) {
        return load(in);
    } else {
        return alternate(load(in), load(in + lanes - 1));
    }
}

// A vector of results, of which not all exist, or not all of their taps.
template <int stride, int taps>
struct Edge {
    std::int64_t first = 0;
    Part loaded[taps][stride];
    Part stored;

    void set(const RowsCall& call, std::int64_t i, std::int64_t first_tap) {
        first = i;
        stored = clamped(0, call.count - i);
        for (int t = 0; t < taps; ++t) {
            for (int s = 0; s < stride; ++s) {
                const std::int64_t x = call.first + i * stride + (first_tap + t) * call.dilation + s * (lanes - 1);
                loaded[t][s] = clamped(-x, call.size - x);
            }
        }
    }

    DMLGRAPH_INLINE Vector load(int t, const float* in, Vector start) const {
        if constexpr (stride == 1) {
            return load_part(in, loaded[t][0], start);
        } else {
            return alternate(load_part(in, loaded[t][0], start), load_part(in + lanes - 1, loaded[t][1], start));
        }
    }

private:
    static Part clamped(std::int64_t begin, std::int64_t end) {
        return part(within(begin), within(end < begin ? begin : end));
    }
};

constexpr int most_edges = 4;  // vectors of a row

// Where a row's vectors without edges are; the other ones are before and after them.
struct PlainVectors {
    std::int64_t begin;
    std::int64_t end;
    std::int64_t edges;

    explicit PlainVectors(const RowsCall& call) {
        begin = (call.begin() + lanes - 1) / lanes * lanes;
        begin = begin < call.count ? begin : (call.count + lanes - 1) / lanes * lanes;
        end = call.end() > begin ? begin + (call.end() - begin) / lanes * lanes : begin;
        edges = begin / lanes + (end < call.count ? (call.count - end + lanes - 1) / lanes : 0);
    }
};

// The taps of a vector of results, one after the other.
template <class Function, int stride, int taps>
DMLGRAPH_INLINE Vector plain_vector(Vector total, const float* in, std::int64_t dilation, bool adjacent) {
    const Function function;
    int t = 0;
    if constexpr (stride == 2 && taps > 1) {
        if (adjacent) {  // the first two are in the same vectors
            const Vector a = load(in), b = load(in + lanes);
            total = function(function(total, even(a, b)), odd(a, b));
            t = 2;
        }
    }
    DMLGRAPH_UNROLL
    for (; t < taps; ++t) {
        total = function(total, spaced<stride>(in + t * dilation));
    }
    return total;
}

template <class Function, int stride, int taps>
DMLGRAPH_ONCE void vector_rows(const RowsCall& call, std::int64_t first_tap, const PlainVectors& plain) {
    const Function function;
    const Vector start = repeated(*static_cast<const float*>(call.start));
    const bool continues = first_tap > 0;
    Edge<stride, taps> edges[most_edges];
    int edge_count = 0;
    for (std::int64_t i = 0; i < call.count; i += lanes) {
        i = i == plain.begin ? plain.end : i;
        if (i < call.count) {
            edges[edge_count++].set(call, i, first_tap);
        }
    }
    const std::int64_t dilation = call.dilation;
    for (std::int64_t r = 0; r < call.rows; ++r) {
        float* const out = static_cast<float*>(call.out) + r * call.out_step;
        const float* const in =
            reinterpret_cast<const float*>(call.in + r * call.in_step) + call.first + first_tap * dilation;
        for (int e = 0; e < edge_count; ++e) {
            const Edge<stride, taps>& edge = edges[e];
            Vector total = continues ? load_part(out + edge.first, edge.stored, start) : start;
            DMLGRAPH_UNROLL
            for (int t = 0; t < taps; ++t) {
                total = function(total, edge.load(t, in + edge.first * stride + t * dilation, start));
            }
            // What is written beyond a row is written again with the next rows, unless these have their first taps
            // already.
            const std::int64_t room = (call.rows - 1 - r) * call.out_step + call.count - edge.first;
            if (room >= lanes && !continues) {
                store(out + edge.first, total);
            } else {
                store_part(out + edge.first, total, edge.stored);
            }
        }
        for (std::int64_t i = plain.begin; i < plain.end; i += lanes) {
            const Vector total = continues ? load(out + i) : start;
            store(out + i, plain_vector<Function, stride, taps>(total, in + i * stride, dilation, dilation == 1));
        }
    }
}

template <class Function, int stride>
void vector_rows(const RowsCall& call, const PlainVectors& plain) {
    for (std::int64_t first = 0; first < call.taps; first += most_in_row) {
        switch (call.taps - first) {
            case 1: vector_rows<Function, stride, 1>(call, first, plain); break;
            case 2: vector_rows<Function, stride, 2>(call, first, plain); break;
            default: vector_rows<Function, stride, 3>(call, first, plain);
        }
    }
}

template <class Function, class T, int stride, int taps>
DMLGRAPH_ONCE void inner_rows(const RowsCall& call, std::int64_t first_tap) {
    const std::int64_t begin = call.begin(), count = call.end() - begin, step = call.stride;
    const T start = *static_cast<const T*>(call.start);
    const bool continues = first_tap > 0;
    for (std::int64_t r = 0; r < call.rows; ++r) {
        T* const out = static_cast<T*>(call.out) + r * call.out_step + begin;
        const T* const row = reinterpret_cast<const T*>(call.in + r * call.in_step);
        const T* const in = row + call.first + begin * step + first_tap * call.dilation;
        if constexpr (stride == 0) {
            const Function function;
            for (std::int64_t i = 0; i < count; ++i) {
                T total = continues ? out[i] : start;
                for (int t = 0; t < taps; ++t) {
                    total = function(total, in[i * step + t * call.dilation]);
                }
                out[i] = total;
            }
        } else {
            plain_row<Function, T, stride, taps>(out, in, call.dilation, count, start, continues);
        }
    }
}

template <class Function, class T, int stride>
void inner_rows(const RowsCall& call) {
    for (std::int64_t first = 0; first < call.taps; first += most_in_row) {
        switch (call.taps - first) {
            case 1: inner_rows<Function, T, stride, 1>(call, first); break;
            case 2: inner_rows<Function, T, stride, 2>(call, first); break;
            default: inner_rows<Function, T, stride, 3>(call, first);
        }
    }
}

template <class Function, class T>
void rows(const RowsCall& call) noexcept {
    if constexpr (is_same<T, float>) {
        const PlainVectors plain(call);
        if (call.stride <= 2 && plain.edges <= most_edges) {
            return call.stride == 1 ? vector_rows<Function, 1>(call, plain) : vector_rows<Function, 2>(call, plain);
        }
    }
    const std::int64_t begin = call.begin(), end = call.end();
    for (std::int64_t r = 0; r < call.rows && end - begin < call.count; ++r) {
        T* const out = static_cast<T*>(call.out) + r * call.out_step;
        const T* const in = reinterpret_cast<const T*>(call.in + r * call.in_step);
        for (std::int64_t i = 0; i < begin; ++i) {
            out[i] = at_edge<Function, T>(call, in, i);
        }
        for (std::int64_t i = end; i < call.count; ++i) {
            out[i] = at_edge<Function, T>(call, in, i);
        }
    }
    switch (call.stride) {
        case 1: return inner_rows<Function, T, 1>(call);
        case 2: return inner_rows<Function, T, 2>(call);
        default: return inner_rows<Function, T, 0>(call);
    }
}

#if defined(__AVX2__)
// Results from `i` on, of the rows from `first` on. Unless the taps are `complete`, some may be above or below the
// picture.
template <class Function, int rows, bool inside, bool complete, int taps, int stride>
DMLGRAPH_INLINE void pooled_rows(const PooledPictureCall& call, const PictureRow<taps, stride>& row, Vector start,
                                 std::int64_t first, std::int64_t i) {
    const Function function;
    const auto load_inside = [start](const float* from, Part part) { return load_part(from, part, start); };
    Vector totals[rows];
    DMLGRAPH_UNROLL
    for (int r = 0; r < rows; ++r) {
        totals[r] = start;
    }
    const std::int64_t top = call.from.top + first * stride;
    const std::byte* in = call.from.in + top * call.from.row_step;
    DMLGRAPH_UNROLL
    for (int k = 0; k < (rows - 1) * stride + taps; ++k, in += call.from.row_step) {
        Vector line = start;
        if (complete || (top + k >= 0 && top + k < call.from.height)) {
            Vector elements[taps];
            row.template read<inside>(elements, reinterpret_cast<const float*>(in), load_inside);
            DMLGRAPH_UNROLL
            for (int x = 0; x < taps; ++x) {
                line = function(line, elements[x]);
            }
        }
        DMLGRAPH_UNROLL
        for (int r = 0; r < rows; ++r) {
            if (k >= r * stride && k < r * stride + taps) {
                totals[r] = function(totals[r], line);
            }
        }
    }
    // What is written beyond a short row is written again with the next rows.
    const std::int64_t place = first * call.count + i, room = (call.rows - rows + 1) * call.count - place;
    float* const out = static_cast<float*>(call.out) + place;
    DMLGRAPH_UNROLL
    for (int r = 0; r < rows; ++r) {
        const Vector total = row.by_window(totals[r]);
        if (room >= lanes) {
            store(out + r * call.count, total);
        } else {
            const std::int64_t own = room + (rows - 1 - r) * call.count;
            store_part(out + r * call.count, total, part(0, within(own)));
        }
    }
}

template <class Function, bool inside, int taps, int stride>
DMLGRAPH_INLINE void pooled_column(const PooledPictureCall& call, const PictureRow<taps, stride>& row, Vector start,
                                   std::int64_t i, std::int64_t begin, std::int64_t end) {
    constexpr int rows = 4;
    std::int64_t first = begin;
    for (; first + rows <= end; first += rows) {
        const std::int64_t top = call.from.top + first * stride;
        if (top >= 0 && top + (rows - 1) * stride + taps <= call.from.height) {
            pooled_rows<Function, rows, inside, true>(call, row, start, first, i);
        } else {
            pooled_rows<Function, rows, inside, false>(call, row, start, first, i);
        }
    }
    for (; first < end; ++first) {
        pooled_rows<Function, 1, inside, false>(call, row, start, first, i);
    }
}

// Calls body(begin, end) for rows of results that are computed before the next ones: all of a small picture, some of a
// large one, so that memory is read nearly in order, which the processor foresees.
template <class Body>
DMLGRAPH_INLINE void each_band(const PooledPictureCall& call, const Body& body) {
    constexpr std::int64_t near_bytes = 16 << 10, some = 8;
    const std::int64_t most = call.from.row_step * call.from.stride_down * call.rows > near_bytes ? some : call.rows;
    for (std::int64_t begin = 0; begin < call.rows; begin += most) {
        body(begin, begin + most < call.rows ? begin + most : call.rows);
    }
}

template <class Function, int taps, int stride>
DMLGRAPH_ONCE void pooled_picture(const PooledPictureCall& call) {
    const Vector start = repeated(*static_cast<const float*>(call.start));
    each_band(call, [&](std::int64_t begin, std::int64_t end) {
        each_column<taps, stride>(
            call.from, call.count,
            [&](const auto& row, std::int64_t i) { pooled_column<Function, true>(call, row, start, i, begin, end); },
            [&](const auto& row, std::int64_t i) { pooled_column<Function, false>(call, row, start, i, begin, end); });
    });
}

template <class Function>
void picture(const PooledPictureCall& call) noexcept {
    if (call.from.taps == 2) {
        return pooled_picture<Function, 2, 2>(call);
    }
    call.from.stride_across == 1 ? pooled_picture<Function, 3, 1>(call) : pooled_picture<Function, 3, 2>(call);
}
#else
template <class Function>
constexpr void (*picture)(const PooledPictureCall&) noexcept = nullptr;
#endif

bool has_negative_zero(const void* in, std::int64_t count) noexcept {
    const auto* const x = static_cast<const float*>(in);
    u32 found = 0;
    DMLGRAPH_LOOP
    for (std::int64_t i = 0; i < count; ++i) {
        found |= bits_of(x[i]) == 0x80000000u ? 1u : 0u;
    }
    return found != 0;
}

constexpr int totals_apart = 64;  // totals that are kept apart: enough for the vectors of every level

template <class Function, class T>
void reduce(void* result, const void* elements, std::int64_t count) noexcept {
    const Function function;
    const auto* const in = static_cast<const T*>(elements);
    T total = *static_cast<T*>(result);
    std::int64_t i = 0;
    if (count >= totals_apart) {
        T totals[totals_apart];
        for (int j = 0; j < totals_apart; ++j) {
            totals[j] = in[j];
        }
        for (i = totals_apart; i + totals_apart <= count; i += totals_apart) {
            DMLGRAPH_LOOP
            for (int j = 0; j < totals_apart; ++j) {
                totals[j] = function(totals[j], in[i + j]);
            }
        }
        for (int width = totals_apart / 2; width > 0; width /= 2) {
            DMLGRAPH_LOOP
            for (int j = 0; j < width; ++j) {
                totals[j] = function(totals[j], totals[width + j]);
            }
        }
        total = function(total, totals[0]);
    }
    constexpr int few = 8;
    if (count - i >= few) {
        T totals[few];
        for (int j = 0; j < few; ++j) {
            totals[j] = in[i + j];
        }
        for (i += few; i + few <= count; i += few) {
            DMLGRAPH_UNROLL
            for (int j = 0; j < few; ++j) {
                totals[j] = function(totals[j], in[i + j]);
            }
        }
        DMLGRAPH_UNROLL
        for (int width = few / 2; width > 0; width /= 2) {
            for (int j = 0; j < width; ++j) {
                totals[j] = function(totals[j], totals[width + j]);
            }
        }
        total = function(total, totals[0]);
    }
    for (; i < count; ++i) {
        total = function(total, in[i]);
    }
    *static_cast<T*>(result) = total;
}

// Lanes do not compare numbers in their order, and a NaN that a lane begins with would stay in it: so lanes begin with
// the total, and of zeros with different signs the first is searched.
template <class T>
void greatest(void* result, const void* elements, std::int64_t count) noexcept {
    const Greater function;
    const auto* const in = static_cast<const T*>(elements);
    T total = *static_cast<T*>(result);
    const T before = total;
    constexpr int width = sizeof(T) < 4 ? 64 : 32;
    T totals[width];
    std::int64_t i = 0;
    if (count >= width) {
        for (int j = 0; j < width; ++j) {
            totals[j] = before;
        }
        for (; i + width <= count; i += width) {
            DMLGRAPH_LOOP
            for (int j = 0; j < width; ++j) {
                totals[j] = function(totals[j], in[i + j]);
            }
        }
        for (int j = 0; j < width; ++j) {
            total = function(total, totals[j]);
        }
    }
    for (; i < count; ++i) {
        total = function(total, in[i]);
    }
    if constexpr (is_float<T>) {
        if (total == 0 && before < 0) {
            for (i = 0; in[i] != 0; ++i) {
            }
            total = in[i];
        }
    }
    *static_cast<T*>(result) = total;
}

template <class T>
constexpr PoolingKernels maxima{rows<Greater, T>,
                                combine<Greater, T>,
                                is_same<T, float> ? +picture<Greater> : nullptr,
                                is_same<T, float> ? pool_cells<Greater> : nullptr,
                                is_same<T, float> ? has_negative_zero : nullptr,
                                greatest<T>,
                                find_row<T>,
                                find<T>};

constexpr PoolingKernels sums{rows<Sum, float>, combine<Sum, float>, picture<Sum>, pool_cells<Sum>,
                              nullptr,          reduce<Sum, float>,  nullptr,      nullptr};
constexpr PoolingKernels wide_sums{rows<Sum, double>, combine<Sum, double>, nullptr, nullptr,
                                   nullptr,           reduce<Sum, double>,  nullptr, nullptr};

template <class T>
void numbers(const NumbersCall& call) noexcept {
    double* const out = call.out;
    const auto* const in = reinterpret_cast<const T*>(call.in);
    const std::int64_t count = call.count;
    const float scale = call.scale, zero_point = call.zero_point;
    DMLGRAPH_LOOP
    for (std::int64_t i = 0; i < count; ++i) {
        out[i] = static_cast<double>((static_cast<float>(in[i]) - zero_point) * scale);
    }
}

DMLGRAPH_INLINE float added(float total, float next) { return total + next; }
DMLGRAPH_INLINE Half added(Half total, Half next) { return half_of(single_of(total) + single_of(next)); }

template <class T>
void spaced_sums(const SpacedSumsCall& call) noexcept {
    auto* const out = static_cast<T*>(call.out);
    const auto* const in = static_cast<const T*>(call.in);
    const std::int64_t count = call.count, out_step = call.out_step, in_step = call.in_step;
    if (out_step == 1 && in_step == 1) {
        DMLGRAPH_LOOP
        for (std::int64_t i = 0; i < count; ++i) {
            out[i] = added(out[i], in[i]);
        }
        return;
    }
    DMLGRAPH_LOOP
    for (std::int64_t i = 0; i < count; ++i) {
        out[i * out_step] = added(out[i * out_step], in[i * in_step]);
    }
}

template <class T>
void scattered_sums(const ScatteredSumsCall& call) noexcept {
    auto* const out = static_cast<T*>(call.out);
    const auto* const in = static_cast<const T*>(call.in);
    for (std::int64_t i = 0; i < call.count; ++i) {
        if (call.where[i] != no_index) {
            out[call.where[i]] = added(out[call.where[i]], in[i]);
        }
    }
}

template <class T>
constexpr GradientKernels gradients{spaced_sums<T>, scattered_sums<T>};

void magnitudes(float* x, std::int64_t count, std::uint32_t p) noexcept {
    switch (p) {
        case 1:
            DMLGRAPH_LOOP
            for (std::int64_t i = 0; i < count; ++i) {
                x[i] = float_of(bits_of(x[i]) & 0x7fffffffu);
            }
            return;
        case 2:
            DMLGRAPH_LOOP
            for (std::int64_t i = 0; i < count; ++i) {
                x[i] *= x[i];
            }
            return;
        default: {
            std::uint32_t highest = 1u << 31;
            while ((p & highest) == 0) {
                highest >>= 1;
            }
            for (std::int64_t i = 0; i < count; ++i) {
                const float magnitude = float_of(bits_of(x[i]) & 0x7fffffffu);
                float power = magnitude;
                for (std::uint32_t bit = highest >> 1; bit != 0; bit >>= 1) {  // no factor is beyond the result's range
                    power *= power;
                    power *= (p & bit) != 0 ? magnitude : 1.0f;
                }
                x[i] = power;
            }
        }
    }
}

const PoolingKernels* maxima_of(DataType type) noexcept {
    switch (type) {
        case DataType::float32:
        case DataType::float16: return &maxima<float>;
        case DataType::int8: return &maxima<i8>;
        case DataType::int16: return &maxima<i16>;
        case DataType::int32: return &maxima<i32>;
        case DataType::int64: return &maxima<i64>;
        case DataType::uint8: return &maxima<u8>;
        case DataType::uint16: return &maxima<u16>;
        case DataType::uint32: return &maxima<u32>;
        case DataType::uint64: return &maxima<u64>;
        default: return nullptr;
    }
}

NumbersKernel numbers_of(DataType type) noexcept {
    switch (type) {
        case DataType::int8: return numbers<i8>;
        case DataType::uint8: return numbers<u8>;
        default: return nullptr;
    }
}

const GradientKernels* gradients_of(DataType type) noexcept {
    switch (type) {
        case DataType::float32: return &gradients<float>;
        case DataType::float16: return &gradients<Half>;
        default: return nullptr;
    }
}

}  // namespace
}  // namespace pooling

constexpr PoolingFamily pooling_kernels{pooling::maxima_of,  pooling::sums,         pooling::wide_sums,
                                        pooling::numbers_of, pooling::gradients_of, pooling::magnitudes};

}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
