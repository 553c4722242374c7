// Squares of numbers transposed in registers.
#pragma once

#include "cpu/kernels/vector.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace {

// Lane j of x[i] becomes lane i of x[j].
#if defined(__AVX2__)

// Of four vectors: within each 128 bits, lane j of x[i] becomes lane i of x[j].
DMLGRAPH_INLINE void transpose_quarters(Vector* x) {
#if defined(__AVX512F__)
    const __m512d a = _mm512_castps_pd(_mm512_unpacklo_ps(x[0], x[1])),
                  b = _mm512_castps_pd(_mm512_unpackhi_ps(x[0], x[1]));
    const __m512d c = _mm512_castps_pd(_mm512_unpacklo_ps(x[2], x[3])),
                  d = _mm512_castps_pd(_mm512_unpackhi_ps(x[2], x[3]));
    x[0] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
    x[1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
    x[2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
    x[3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
#else
    const __m256d a = _mm256_castps_pd(_mm256_unpacklo_ps(x[0], x[1])),
                  b = _mm256_castps_pd(_mm256_unpackhi_ps(x[0], x[1]));
    const __m256d c = _mm256_castps_pd(_mm256_unpacklo_ps(x[2], x[3])),
                  d = _mm256_castps_pd(_mm256_unpackhi_ps(x[2], x[3]));
    x[0] = _mm256_castpd_ps(_mm256_unpacklo_pd(a, c));
    x[1] = _mm256_castpd_ps(_mm256_unpackhi_pd(a, c));
    x[2] = _mm256_castpd_ps(_mm256_unpacklo_pd(b, d));
    x[3] = _mm256_castpd_ps(_mm256_unpackhi_pd(b, d));
#endif
}

DMLGRAPH_INLINE void transpose(Vector (&x)[lanes]) {
    constexpr int quarter = 4;
    DMLGRAPH_UNROLL
    for (int i = 0; i < lanes; i += quarter) {
        transpose_quarters(x + i);
    }
    // Now the lanes 4 · q … 4 · q + 3 of x[4 · i + j] are those of column 4 · q + j in the rows 4 · i … 4 · i + 3.
    DMLGRAPH_UNROLL
    for (int j = 0; j < quarter; ++j) {
#if defined(__AVX512F__)
        const __m512 even_above = _mm512_shuffle_f32x4(x[j], x[4 + j], 0x88),
                     odd_above = _mm512_shuffle_f32x4(x[j], x[4 + j], 0xdd);
        const __m512 even_below = _mm512_shuffle_f32x4(x[8 + j], x[12 + j], 0x88),
                     odd_below = _mm512_shuffle_f32x4(x[8 + j], x[12 + j], 0xdd);
        x[j] = _mm512_shuffle_f32x4(even_above, even_below, 0x88);
        x[4 + j] = _mm512_shuffle_f32x4(odd_above, odd_below, 0x88);
        x[8 + j] = _mm512_shuffle_f32x4(even_above, even_below, 0xdd);
        x[12 + j] = _mm512_shuffle_f32x4(odd_above, odd_below, 0xdd);
#else
        const __m256 above = x[j], below = x[4 + j];
        x[j] = _mm256_permute2f128_ps(above, below, 0x20);
        x[4 + j] = _mm256_permute2f128_ps(above, below, 0x31);
#endif
    }
}

#elif defined(DMLGRAPH_X86)

DMLGRAPH_INLINE void transpose(Vector (&x)[lanes]) {
    const __m128 a = _mm_unpacklo_ps(x[0], x[1]), b = _mm_unpackhi_ps(x[0], x[1]);
    const __m128 c = _mm_unpacklo_ps(x[2], x[3]), d = _mm_unpackhi_ps(x[2], x[3]);
    x[0] = _mm_movelh_ps(a, c);
    x[1] = _mm_movehl_ps(c, a);
    x[2] = _mm_movelh_ps(b, d);
    x[3] = _mm_movehl_ps(d, b);
}

#elif defined(__aarch64__) || defined(_M_ARM64)

DMLGRAPH_INLINE void transpose(Vector (&x)[lanes]) {
    const float32x4_t a = vtrn1q_f32(x[0], x[1]), b = vtrn2q_f32(x[0], x[1]);
    const float32x4_t c = vtrn1q_f32(x[2], x[3]), d = vtrn2q_f32(x[2], x[3]);
    x[0] = vcombine_f32(vget_low_f32(a), vget_low_f32(c));
    x[1] = vcombine_f32(vget_low_f32(b), vget_low_f32(d));
    x[2] = vcombine_f32(vget_high_f32(a), vget_high_f32(c));
    x[3] = vcombine_f32(vget_high_f32(b), vget_high_f32(d));
}

#else

DMLGRAPH_INLINE void transpose(Vector (&x)[lanes]) {
    for (int i = 0; i < lanes; ++i) {
        for (int j = 0; j < i; ++j) {
            const float number = x[i][j];
            x[i][j] = x[j][i];
            x[j][i] = number;
        }
    }
}

#endif

}  // namespace
}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
