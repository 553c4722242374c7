// Products of floats: tiles, and the packing of panels.
#include "cpu/kernels/product.h"

#include "cpu/kernels/half.h"
#include "cpu/kernels/level.h"
#include "cpu/kernels/narrow_tile.h"
#include "cpu/kernels/part_vector.h"
#include "cpu/kernels/peak.h"
#include "cpu/kernels/tile.h"
#include "cpu/kernels/transpose.h"
#include "cpu/kernels/vector.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace product {
namespace {

constexpr std::int64_t ahead = 12;  // depths

DMLGRAPH_INLINE float number(const float* x) { return *x; }
DMLGRAPH_INLINE float number(const Half* x) { return single_of(*x); }

template <class T>
DMLGRAPH_INLINE void copied(float* out, const T* in, std::int64_t count) {
    if constexpr (is_same<T, Half>) {
        to_single(in, out, static_cast<std::size_t>(count));
    } else {
        std::int64_t i = 0;
        for (; i + lanes <= count; i += lanes) {
            store(out + i, load(in + i));
        }
#if defined(__AVX512F__)
        const auto rest = static_cast<__mmask16>((1u << (count - i)) - 1u);
        _mm512_mask_storeu_ps(out + i, rest, _mm512_maskz_loadu_ps(rest, in + i));
#else
        for (; i < count; ++i) {
            out[i] = in[i];
        }
#endif
    }
}

// Elements that are `step` elements apart, if that is known when this is compiled.
template <class T, int step>
DMLGRAPH_INLINE void apart(float* out, const T* in, std::int64_t count) {
    DMLGRAPH_LOOP
    for (std::int64_t i = 0; i < count; ++i) {
        out[i] = number(in + step * i);
    }
}

template <class T>
void line(NumbersTo to, const std::byte* in, std::int64_t step, std::int64_t count) noexcept {
    auto* const out = to.as<float>();
    const auto* const from = reinterpret_cast<const T*>(in);
    switch (step) {
        case sizeof(T): return copied(out, from, count);
        case 2 * sizeof(T): return apart<T, 2>(out, from, count);
        case 4 * sizeof(T): return apart<T, 4>(out, from, count);
        default:
            for (std::int64_t i = 0; i < count; ++i) {
                out[i] = number(reinterpret_cast<const T*>(in + i * step));
            }
    }
}

// Short lines lie in one vector or two: what is stored is the same for all lines.
template <class T>
void several_lines(const SeveralLinesCall& call) noexcept {
    const bool side_by_side = is_same<T, float> && call.step == sizeof(T);
    if (!side_by_side || call.count > 4 * lanes) {
        for (std::int64_t i = 0; i < call.lines; ++i) {
            line<T>(call.out + i * call.out_step, call.in + i * call.in_step, call.step, call.count);
        }
        return;
    }
    const std::int64_t in_step = call.in_step, out_step = call.out_step;
    for (std::int64_t first = 0; first < call.count; first += lanes) {
        const bool is_part = call.count < lanes;
        const std::int64_t at = is_part || first + lanes <= call.count ? first : call.count - lanes;
        const std::byte* in = call.in + at * std::int64_t{sizeof(float)};
        float* out = call.out.as<float>() + at;
        const Part some = part(0, static_cast<int>(is_part ? call.count : lanes));
        for (std::int64_t i = 0; i < call.lines; ++i, in += in_step, out += out_step) {
            const auto* const from = reinterpret_cast<const float*>(in);
            if (is_part) {
                store_part(out, load_part(from, some), some);
            } else {
                store(out, load(from));
            }
        }
    }
}

DMLGRAPH_INLINE Vector numbers(const float* from) { return load(from); }
DMLGRAPH_INLINE Vector numbers(const Half* from) { return load_halves(from); }

// The first `count` numbers, then zeros.
DMLGRAPH_INLINE Vector some_numbers(const float* from, int count) {
    return load_part(from, part(0, count), repeated(0.0f));
}
DMLGRAPH_INLINE Vector some_numbers(const Half* from, int count) { return load_halves(from, count); }

// Stores a vector of a panel, which may reach into the next depth, whose numbers are stored later, but not beyond the
// end.
DMLGRAPH_INLINE void store_before(float* end, float* to, Vector x) {
    if (to + lanes <= end) {
        store(to, x);
    } else {
        store_part(to, x, part(0, static_cast<int>(end - to)));
    }
}

// Lines whose numbers lie one after the other.
template <class T>
DMLGRAPH_INLINE void pack_along(const PanelCall& call) {
    const std::int64_t width = call.width;
    float *const out = call.out.as<float>(), *const end = out + call.depth * width;
    for (std::int64_t k = 0; k < call.depth; k += lanes) {
        const int depths = static_cast<int>(call.depth - k < lanes ? call.depth - k : lanes);
        for (std::int64_t first = (width - 1) / lanes * lanes; first >= 0; first -= lanes) {
            Vector square[lanes];
            DMLGRAPH_UNROLL
            for (int i = 0; i < lanes; ++i) {
                const auto* const from = reinterpret_cast<const T*>(call.in + (first + i) * call.line_step) + k;
                square[i] = first + i >= call.lines ? repeated(0.0f)
                            : depths == lanes       ? numbers(from)
                                                    : some_numbers(from, depths);
            }
            transpose(square);
            float* to = out + k * width + first;
            if (depths == lanes && to + (lanes - 1) * width + lanes <= end) {
                DMLGRAPH_UNROLL
                for (int j = 0; j < lanes; ++j) {
                    store(to + j * width, square[j]);
                }
                continue;
            }
            for (int j = 0; j < depths; ++j) {
                store_before(end, to + j * width, square[j]);
            }
        }
    }
}

// Lines whose numbers at one depth lie side by side.
template <class T>
DMLGRAPH_INLINE void pack_across(const PanelCall& call) {
    const std::int64_t width = call.width, whole = call.lines / lanes * lanes;
    float *to = call.out.as<float>(), *const end = to + call.depth * width;
    const std::byte* in = call.in;
    for (std::int64_t k = 0; k < call.depth; ++k, in += call.depth_step, to += width) {
        const auto* const from = reinterpret_cast<const T*>(in);
        if (k + ahead < call.depth) {  // the processor does not foresee lines that are in pages of their own
            const std::byte* const next = in + ahead * call.depth_step;
            prefetch(next);
            prefetch(next + (call.lines - 1) * std::int64_t{sizeof(T)});
        }
        std::int64_t i = 0;
        for (; i < whole; i += lanes) {
            store(to + i, numbers(from + i));
        }
        if (i < call.lines) {
            store_before(end, to + i, some_numbers(from + i, static_cast<int>(call.lines - i)));
            i += lanes;
        }
        for (; i < width; i += lanes) {
            store_before(end, to + i, repeated(0.0f));
        }
    }
}

template <class T>
void pack(const PanelCall& call) noexcept {
    constexpr std::int64_t item = sizeof(T);
    if (call.width == 1) {
        return line<T>(call.out, call.in, call.depth_step, call.depth);
    }
    if (call.line_step == item || call.lines == 1) {
        return pack_across<T>(call);
    }
    if (call.depth_step == item) {
        return pack_along<T>(call);
    }
    const std::byte* from = call.in;
    for (std::int64_t k = 0; k < call.depth; ++k, from += call.depth_step) {
        float* const to = call.out.as<float>() + k * call.width;
        line<T>(to, from, call.line_step, call.lines);
        for (std::int64_t i = call.lines; i < call.width; ++i) {
            to[i] = 0.0f;
        }
    }
}

// Some depths at a time: so the sums, which stay in the nearest cache, are read and written less often.
template <int rows, int depths>
DMLGRAPH_INLINE void add_depths(float (&sums)[rows][most_streamed_columns], const float* a, const float* b,
                                const StreamCall& call) {
    for (std::int64_t j = 0; j < call.columns; j += lanes) {
        Vector column[depths];
        DMLGRAPH_UNROLL
        for (int k = 0; k < depths; ++k) {
            column[k] = load(b + k * call.b_step + j);
        }
        DMLGRAPH_UNROLL
        for (int i = 0; i < rows; ++i) {
            Vector total = load(sums[i] + j);
            DMLGRAPH_UNROLL
            for (int k = 0; k < depths; ++k) {
                total = product_sum(repeated(a[k * rows + i]), column[k], total);
            }
            store(sums[i] + j, total);
        }
    }
}

template <int rows>
void stream_rows(const StreamCall& call) {
    constexpr int several = 8;
    alignas(64) float sums[rows][most_streamed_columns];
    for (int i = 0; i < rows; ++i) {
        for (std::int64_t j = 0; j < call.columns; j += lanes) {
            store(sums[i] + j, repeated(0.0f));
        }
    }
    const float *a = call.a, *b = call.b;
    std::int64_t k = call.depth;
    for (; k >= several; k -= several, a += several * rows, b += several * call.b_step) {
        add_depths<rows, several>(sums, a, b, call);
    }
    for (; k > 0; --k, a += rows, b += call.b_step) {
        add_depths<rows, 1>(sums, a, b, call);
    }
    for (int i = 0; i < rows; ++i) {
        float* const to = call.c + i * call.c_step;
        for (std::int64_t j = 0; j < call.columns; j += lanes) {
            const Vector total = load(sums[i] + j);
            store(to + j, call.adds ? sum(load(to + j), total) : total);
        }
    }
}

void stream(const StreamCall& call) noexcept {
    switch (call.rows) {
        case 1: return stream_rows<1>(call);
        case 2: return stream_rows<2>(call);
        case 3: return stream_rows<3>(call);
        default: return stream_rows<4>(call);
    }
}

constexpr int interleaved = 16;  // sums of a line
constexpr int vectors_of_line = interleaved / lanes;

// Adds the sums of a line, always in the same order.
DMLGRAPH_INLINE float total(const Vector (&sums)[vectors_of_line]) {
    float four[4];
#if defined(__AVX512F__)
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(sums[0]), _mm512_extractf32x8_ps(sums[0], 1));
    _mm_storeu_ps(four, _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1)));
#elif defined(__AVX2__)
    const __m256 eight = sum(sums[0], sums[1]);
    _mm_storeu_ps(four, _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1)));
#else
    store(four, sum(sum(sums[0], sums[2]), sum(sums[1], sums[3])));
#endif
    return (four[0] + four[2]) + (four[1] + four[3]);
}

// Each sum is a chain of instructions, and several run at a time.
template <class T, int rows, int columns>
DMLGRAPH_INLINE void sum_lines(const LinesCall& call, std::int64_t first) {
    const T* from[columns];
    Vector sums[columns][rows][vectors_of_line];
    DMLGRAPH_UNROLL
    for (int c = 0; c < columns; ++c) {
        from[c] = reinterpret_cast<const T*>(call.b + (first + c) * call.line_step);
        DMLGRAPH_UNROLL
        for (int r = 0; r < rows; ++r) {
            DMLGRAPH_UNROLL
            for (int v = 0; v < vectors_of_line; ++v) {
                sums[c][r][v] = repeated(0.0f);
            }
        }
    }
    const std::int64_t whole = call.depth / interleaved * interleaved;
    for (std::int64_t k = 0; k < whole; k += interleaved) {
        DMLGRAPH_UNROLL
        for (int v = 0; v < vectors_of_line; ++v) {
            Vector row[rows];
            DMLGRAPH_UNROLL
            for (int r = 0; r < rows; ++r) {
                row[r] = load(call.a + r * call.a_step + k + v * lanes);
            }
            DMLGRAPH_UNROLL
            for (int c = 0; c < columns; ++c) {
                const Vector column = numbers(from[c] + k + v * lanes);
                DMLGRAPH_UNROLL
                for (int r = 0; r < rows; ++r) {
                    sums[c][r][v] = product_sum(row[r], column, sums[c][r][v]);
                }
            }
        }
    }
    DMLGRAPH_UNROLL
    for (int v = 0; v < vectors_of_line; ++v) {
        const std::int64_t at = whole + v * lanes;
        if (at < call.depth) {
            const int count = static_cast<int>(call.depth - at < lanes ? call.depth - at : lanes);
            DMLGRAPH_UNROLL
            for (int c = 0; c < columns; ++c) {
                const Vector column = some_numbers(from[c] + at, count);
                DMLGRAPH_UNROLL
                for (int r = 0; r < rows; ++r) {
                    const Vector row = some_numbers(call.a + r * call.a_step + at, count);
                    sums[c][r][v] = product_sum(row, column, sums[c][r][v]);
                }
            }
        }
    }
    DMLGRAPH_UNROLL
    for (int c = 0; c < columns; ++c) {
        DMLGRAPH_UNROLL
        for (int r = 0; r < rows; ++r) {
            float* const to = call.c + r * call.c_step + first + c;
            *to = call.adds ? *to + total(sums[c][r]) : total(sums[c][r]);
        }
    }
}

template <class T, int rows>
void stream_lines_of(const LinesCall& call) {
    constexpr int sums = lanes == 16 ? 8 : lanes == 8 ? 4 : 2;  // that are added up at a time, of one row
    constexpr int several = lanes == 16 && rows > 1 ? 4 : sums > rows ? sums / rows : 1;
    std::int64_t first = 0;
    for (; first + several <= call.columns; first += several) {
        sum_lines<T, rows, several>(call, first);
    }
    for (; first < call.columns; ++first) {
        sum_lines<T, rows, 1>(call, first);
    }
}

template <class T>
void stream_lines(const LinesCall& call) noexcept {
    switch (call.rows) {
        case 1: return stream_lines_of<T, 1>(call);
        case 2: return stream_lines_of<T, 2>(call);
        case 3: return stream_lines_of<T, 3>(call);
        default: return stream_lines_of<T, 4>(call);
    }
}

double peak(std::int64_t rounds, float* sum) noexcept { return multiply_and_add<Singles>(rounds, 0.5f, 1.0f, 1, sum); }

// As many sums as processors can add to before the first of them is done.
constexpr int wide_panels[] = {4, 2};
constexpr TileKernel wide_kernels[] = {wide_tile<Singles, 1, wide_panels[0]>, wide_tile<Singles, 2, wide_panels[1]>};
constexpr WideTiles wide{sizeof(wide_panels) / sizeof(wide_panels[0]), wide_panels, wide_kernels};

// What the level has for integers is put in when the kernels are chosen.
constexpr ProductKernels kernels{tiles_of<Singles>(tile_kernels<Singles, RowsApart>, narrow_tiles_of_level, wide),
                                 pack<float>,
                                 pack<Half>,
                                 line<float>,
                                 line<Half>,
                                 several_lines<float>,
                                 several_lines<Half>,
                                 stream,
                                 stream_lines<float>,
                                 stream_lines<Half>,
                                 peak,
                                 {}};

}  // namespace
}  // namespace product

constexpr ProductKernels product_kernels = product::kernels;

}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
