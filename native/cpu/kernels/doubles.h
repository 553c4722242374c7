// Vectors of doubles that floats become as they are loaded. Compilers load floats in whole vectors and take these apart,
// which takes as long as adding them.
#pragma once

#include "cpu/compiler.h"

#if defined(__AVX2__)
#include <immintrin.h>
#define DMLGRAPH_DOUBLES 1
#endif

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace {

#if defined(__AVX512F__)

using Doubles = __m512d;
DMLGRAPH_INLINE Doubles widened(__m256 x) { return _mm512_maskz_cvtps_pd(0xff, x); }
DMLGRAPH_INLINE Doubles widened(const float* from) { return widened(_mm256_loadu_ps(from)); }
DMLGRAPH_INLINE Doubles widened_squares(const float* from) { return widened(_mm256_mul_ps(_mm256_loadu_ps(from), _mm256_loadu_ps(from))); }
DMLGRAPH_INLINE Doubles load(const double* from) { return _mm512_loadu_pd(from); }
DMLGRAPH_INLINE void store(double* to, Doubles x) { _mm512_storeu_pd(to, x); }
DMLGRAPH_INLINE Doubles sum(Doubles a, Doubles b) { return _mm512_add_pd(a, b); }
DMLGRAPH_INLINE Doubles times(Doubles a, Doubles b) { return _mm512_mul_pd(a, b); }

#elif defined(__AVX2__)

using Doubles = __m256d;
DMLGRAPH_INLINE Doubles widened(const float* from) { return _mm256_cvtps_pd(_mm_loadu_ps(from)); }
DMLGRAPH_INLINE Doubles widened_squares(const float* from) { return _mm256_cvtps_pd(_mm_mul_ps(_mm_loadu_ps(from), _mm_loadu_ps(from))); }
DMLGRAPH_INLINE Doubles load(const double* from) { return _mm256_loadu_pd(from); }
DMLGRAPH_INLINE void store(double* to, Doubles x) { _mm256_storeu_pd(to, x); }
DMLGRAPH_INLINE Doubles sum(Doubles a, Doubles b) { return _mm256_add_pd(a, b); }
DMLGRAPH_INLINE Doubles times(Doubles a, Doubles b) { return _mm256_mul_pd(a, b); }

#endif

}  // namespace
}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
