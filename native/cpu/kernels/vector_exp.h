// e^x of vectors, several at a time: each waits for its own results, so that several keep the processor busy.
#pragma once

#include "cpu/kernels/exponential.h"
#include "cpu/kernels/part_vector.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace {

// scaled(x, shifted) is x · 2^n for n down to -151, where the lowest bits of `shifted` are
// n + 191: it multiplies in two steps, the second of which makes small results subnormal.
#if defined(__AVX512F__)
DMLGRAPH_INLINE Vector scaled(Vector x, Vector shifted) {
    const Vector power = _mm512_castsi512_ps(_mm512_maskz_slli_epi32(every_lane, _mm512_castps_si512(shifted), 23));
    return _mm512_mul_ps(_mm512_mul_ps(x, power), repeated(0x1p-64f));
}
#elif defined(__AVX2__)
DMLGRAPH_INLINE Vector scaled(Vector x, Vector shifted) {
    const Vector power = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(shifted), 23));
    return _mm256_mul_ps(_mm256_mul_ps(x, power), repeated(0x1p-64f));
}
#elif defined(DMLGRAPH_X86)
DMLGRAPH_INLINE Vector scaled(Vector x, Vector shifted) {
    const Vector power = _mm_castsi128_ps(_mm_slli_epi32(_mm_castps_si128(shifted), 23));
    return _mm_mul_ps(_mm_mul_ps(x, power), repeated(0x1p-64f));
}
#elif defined(__aarch64__) || defined(_M_ARM64)
DMLGRAPH_INLINE Vector scaled(Vector x, Vector shifted) {
    const Vector power = vreinterpretq_f32_s32(vshlq_n_s32(vreinterpretq_s32_f32(shifted), 23));
    return vmulq_f32(vmulq_f32(x, power), repeated(0x1p-64f));
}
#else
DMLGRAPH_INLINE Vector scaled(Vector x, Vector shifted) {
    for (int i = 0; i < 4; ++i) {
        x.lane[i] = x.lane[i] * float_of(bits_of(shifted.lane[i]) << 23) * 0x1p-64f;
    }
    return x;
}
#endif

// x = e^x for x up to 0. Large results need no care.
template <int count>
DMLGRAPH_INLINE void exp_below_zero(Vector (&x)[count]) {
    constexpr float whole = 0x1.8p23f + 191.0f;  // 127 + 64: the exponent's bits of 2^(n + 64)
    Vector shifted[count], e[count];
    DMLGRAPH_UNROLL
    for (int i = 0; i < count; ++i) {
        x[i] = greater(repeated(-104.0f), x[i]);
        shifted[i] = product_sum(x[i], repeated(log2_e), repeated(whole));
    }
    DMLGRAPH_UNROLL
    for (int i = 0; i < count; ++i) {
        const Vector n = difference(shifted[i], repeated(whole));
        x[i] = product_sum(n, repeated(-ln2_low), product_sum(n, repeated(-ln2_high), x[i]));
        e[i] = repeated(exp_terms[0]);
    }
    DMLGRAPH_UNROLL
    for (int k = 1; k < static_cast<int>(sizeof(exp_terms) / sizeof(exp_terms[0])); ++k) {
        DMLGRAPH_UNROLL
        for (int i = 0; i < count; ++i) {
            e[i] = product_sum(e[i], x[i], repeated(exp_terms[k]));
        }
    }
    DMLGRAPH_UNROLL
    for (int i = 0; i < count; ++i) {
        x[i] = scaled(e[i], shifted[i]);
    }
}

}  // namespace
}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
