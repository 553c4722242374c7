// Products of floats: tiles, the packing of panels, and sums over taps.
#include "cpu/kernels/product.h"

#include "cpu/kernels/half.h"
#include "cpu/kernels/product_tables.h"
#include "cpu/kernels/tile.h"
#include "cpu/kernels/vector.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace product {
namespace {

constexpr std::int64_t ahead = 12;  // depths

DMLGRAPH_INLINE float number(const float* x) { return *x; }
DMLGRAPH_INLINE float number(const Half* x) { return single_of(*x); }
DMLGRAPH_INLINE float number(const i8* x) { return static_cast<float>(*x); }
DMLGRAPH_INLINE float number(const u8* x) { return static_cast<float>(*x); }

template <class T>
DMLGRAPH_INLINE void copied(float* out, const T* in, std::int64_t count) {
    if constexpr (is_same<T, Half>) {
        to_single(in, out, static_cast<std::size_t>(count));
    } else if constexpr (sizeof(T) == 1) {
        DMLGRAPH_LOOP
        for (std::int64_t i = 0; i < count; ++i) {
            out[i] = number(in + i);
        }
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
void line(float* out, const std::byte* in, std::int64_t step, std::int64_t count) noexcept {
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

template <class T>
void pack(const PanelCall& call) noexcept {
    float* const out = call.out;
    const std::int64_t lines = call.lines, width = call.width;
    if (call.depth_step == sizeof(T) && call.line_step != sizeof(T)) {
        for (std::int64_t i = 0; i < lines; ++i) {
            const auto* const from = reinterpret_cast<const T*>(call.in + i * call.line_step);
            for (std::int64_t k = 0; k < call.depth; ++k) {
                out[k * width + i] = number(from + k);
            }
        }
    } else {
        const std::byte* from = call.in;
        for (std::int64_t k = 0; k < call.depth; ++k, from += call.depth_step) {
            if (k + ahead < call.depth) {  // the processor does not foresee lines that are in pages of their own
                const std::byte* const next = from + ahead * call.depth_step;
                prefetch(next);
                prefetch(next + (lines - 1) * call.line_step);
            }
            line<T>(out + k * width, from, call.line_step, lines);
        }
    }
    for (std::int64_t k = 0; lines < width && k < call.depth; ++k) {
        for (std::int64_t i = lines; i < width; ++i) {
            out[k * width + i] = 0.0f;
        }
    }
}

template <int vectors>
DMLGRAPH_INLINE void sum_taps(const TapsCall& call, std::int64_t first) {
    Vector sums[vectors];
    DMLGRAPH_UNROLL
    for (int j = 0; j < vectors; ++j) {
        sums[j] = repeated(0.0f);
    }
    for (std::int64_t t = 0; t < call.taps; ++t) {
        const float* const in = call.in + call.offsets[t] + first;
        const Vector weight = repeated(call.weights[t]);
        DMLGRAPH_UNROLL
        for (int j = 0; j < vectors; ++j) {
            sums[j] = product_sum(weight, load(in + j * lanes), sums[j]);
        }
    }
    DMLGRAPH_UNROLL
    for (int j = 0; j < vectors; ++j) {
        store(call.out + first + j * lanes, sums[j]);
    }
}

void taps(const TapsCall& call) noexcept {
    constexpr int several = 4;
    std::int64_t first = 0;
    for (; first + several * lanes <= call.count; first += several * lanes) {
        sum_taps<several>(call, first);
    }
    for (; first < call.count; first += lanes) {
        sum_taps<1>(call, first);
    }
}

// Some depths at a time: so the sums, which stay in the nearest cache, are read and written less often.
template <int rows, int depths>
DMLGRAPH_INLINE void add_depths(float (&sums)[rows][most_streamed_columns], const float* a, const float* b, const StreamCall& call) {
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

// What the level has for integers is put in when the kernels are chosen.
constexpr ProductKernels kernels{tiles_of<Singles>(), pack<float>, pack<Half>, line<float>, line<Half>, line<i8>, line<u8>, taps, stream, {}};

}  // namespace
}  // namespace product

const ProductKernels& products() { return product::kernels; }

}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
