// The widest vectors of floats that a level has, and what products do with them. Compilers vectorise the loops of other
// kernels themselves, but do not keep a tile of sums in registers.
#pragma once

#include "cpu/compiler.h"

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(DMLGRAPH_X86)
#include <emmintrin.h>
#elif defined(__aarch64__) || defined(_M_ARM64)
#include <arm_neon.h>
#endif

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace {

#if defined(__AVX512F__)

using Vector = __m512;
DMLGRAPH_INLINE Vector load(const float* from) { return _mm512_loadu_ps(from); }
DMLGRAPH_INLINE void store(float* to, Vector x) { _mm512_storeu_ps(to, x); }
DMLGRAPH_INLINE Vector repeated(float x) { return _mm512_set1_ps(x); }
DMLGRAPH_INLINE Vector sum(Vector a, Vector b) { return _mm512_add_ps(a, b); }
DMLGRAPH_INLINE Vector product_sum(Vector a, Vector b, Vector c) { return _mm512_fmadd_ps(a, b, c); }

#elif defined(__AVX2__)

using Vector = __m256;
DMLGRAPH_INLINE Vector load(const float* from) { return _mm256_loadu_ps(from); }
DMLGRAPH_INLINE void store(float* to, Vector x) { _mm256_storeu_ps(to, x); }
DMLGRAPH_INLINE Vector repeated(float x) { return _mm256_set1_ps(x); }
DMLGRAPH_INLINE Vector sum(Vector a, Vector b) { return _mm256_add_ps(a, b); }
DMLGRAPH_INLINE Vector product_sum(Vector a, Vector b, Vector c) { return _mm256_fmadd_ps(a, b, c); }

#elif defined(DMLGRAPH_X86)

using Vector = __m128;
DMLGRAPH_INLINE Vector load(const float* from) { return _mm_loadu_ps(from); }
DMLGRAPH_INLINE void store(float* to, Vector x) { _mm_storeu_ps(to, x); }
DMLGRAPH_INLINE Vector repeated(float x) { return _mm_set1_ps(x); }
DMLGRAPH_INLINE Vector sum(Vector a, Vector b) { return _mm_add_ps(a, b); }
DMLGRAPH_INLINE Vector product_sum(Vector a, Vector b, Vector c) { return _mm_add_ps(_mm_mul_ps(a, b), c); }

#elif defined(__aarch64__) || defined(_M_ARM64)

using Vector = float32x4_t;
DMLGRAPH_INLINE Vector load(const float* from) { return vld1q_f32(from); }
DMLGRAPH_INLINE void store(float* to, Vector x) { vst1q_f32(to, x); }
DMLGRAPH_INLINE Vector repeated(float x) { return vdupq_n_f32(x); }
DMLGRAPH_INLINE Vector sum(Vector a, Vector b) { return vaddq_f32(a, b); }
DMLGRAPH_INLINE Vector product_sum(Vector a, Vector b, Vector c) { return vfmaq_f32(c, a, b); }

#else

struct Vector {
    float lane[4];
};
DMLGRAPH_INLINE Vector load(const float* from) { return {{from[0], from[1], from[2], from[3]}}; }
DMLGRAPH_INLINE void store(float* to, Vector x) {
    for (int i = 0; i < 4; ++i) {
        to[i] = x.lane[i];
    }
}
DMLGRAPH_INLINE Vector repeated(float x) { return {{x, x, x, x}}; }
DMLGRAPH_INLINE Vector sum(Vector a, Vector b) {
    for (int i = 0; i < 4; ++i) {
        a.lane[i] += b.lane[i];
    }
    return a;
}
DMLGRAPH_INLINE Vector product_sum(Vector a, Vector b, Vector c) {
    for (int i = 0; i < 4; ++i) {
        c.lane[i] += a.lane[i] * b.lane[i];
    }
    return c;
}

#endif

inline constexpr int lanes = sizeof(Vector) / sizeof(float);

}  // namespace
}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
