// Vectors of doubles that floats become as they are loaded. Compilers load floats in whole vectors and take these
// apart, which takes as long as adding them.
#pragma once

#include "cpu/compiler.h"

#if defined(__AVX2__)
#include <immintrin.h>
#define DMLGRAPH_DOUBLES 1
#endif

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace {

// Floats are as many as a vector of doubles has: of memory, or the first or next ones of a vector. Lanes are folded in
// halves.
#if defined(__AVX512F__)

using Doubles = __m512d;
using Floats = __m256;
DMLGRAPH_INLINE Floats floats(const float* from) { return _mm256_loadu_ps(from); }
DMLGRAPH_INLINE Floats first_floats(__m512 x) { return _mm512_castps512_ps256(x); }
DMLGRAPH_INLINE Floats next_floats(__m512 x) { return _mm512_maskz_extractf32x8_ps(0xff, x, 1); }
DMLGRAPH_INLINE Doubles widened(Floats x) { return _mm512_maskz_cvtps_pd(0xff, x); }
DMLGRAPH_INLINE Doubles widened_squares(Floats x) { return widened(_mm256_mul_ps(x, x)); }
DMLGRAPH_INLINE Doubles load(const double* from) { return _mm512_loadu_pd(from); }
DMLGRAPH_INLINE void store(double* to, Doubles x) { _mm512_storeu_pd(to, x); }
DMLGRAPH_INLINE Doubles sum(Doubles a, Doubles b) { return _mm512_add_pd(a, b); }
DMLGRAPH_INLINE Doubles times(Doubles a, Doubles b) { return _mm512_mul_pd(a, b); }

#elif defined(__AVX2__)

using Doubles = __m256d;
using Floats = __m128;
DMLGRAPH_INLINE Floats floats(const float* from) { return _mm_loadu_ps(from); }
DMLGRAPH_INLINE Floats first_floats(__m256 x) { return _mm256_castps256_ps128(x); }
DMLGRAPH_INLINE Floats next_floats(__m256 x) { return _mm256_extractf128_ps(x, 1); }
DMLGRAPH_INLINE Doubles widened(Floats x) { return _mm256_cvtps_pd(x); }
DMLGRAPH_INLINE Doubles widened_squares(Floats x) { return _mm256_cvtps_pd(_mm_mul_ps(x, x)); }
DMLGRAPH_INLINE Doubles load(const double* from) { return _mm256_loadu_pd(from); }
DMLGRAPH_INLINE void store(double* to, Doubles x) { _mm256_storeu_pd(to, x); }
DMLGRAPH_INLINE Doubles sum(Doubles a, Doubles b) { return _mm256_add_pd(a, b); }
DMLGRAPH_INLINE Doubles times(Doubles a, Doubles b) { return _mm256_mul_pd(a, b); }

#endif

#if defined(__AVX2__)
DMLGRAPH_INLINE double folded(__m256d x) {
    const __m128d pair = _mm_add_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd(x, 1));
    return _mm_cvtsd_f64(_mm_add_sd(pair, _mm_unpackhi_pd(pair, pair)));
}
#endif
#if defined(__AVX512F__)
DMLGRAPH_INLINE double folded(Doubles x) {
    return folded(_mm256_add_pd(_mm512_castpd512_pd256(x), _mm512_maskz_extractf64x4_pd(0xf, x, 1)));
}
#endif

}  // namespace
}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
