// e^x of vectors, several at a time: each waits for its own results, so that several keep the processor busy.
//
// x = n (ln 2) / 8 + r with a whole n. The root 2^(n mod 8 / 8) is read from a table, so that r is small, and few terms
// give e^r.
#pragma once

#include "cpu/kernels/exponential.h"
#include "cpu/kernels/part_vector.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace {

// The bits of 2^(i / 8), less the exponent's of 1 and i in the highest bits of the fraction. Those of a number whose
// lowest bits are 8 e + i, shifted by 20, add the exponent e and i.
alignas(32) inline constexpr u32 eighth_roots[] = {0x00000000u, 0xfffb95c2u, 0xfff837f0u, 0xfff5fed7u,
                                                   0xfff504f3u, 0xfff5672au, 0xfff744fdu, 0xfffac0c7u};

// 2^(n / 8 + 64), where the lowest bits of `shifted` are n + 8 · 191, for n down to -8 · 190; 0 for n = -8 · 191.
#if defined(__AVX512F__)
DMLGRAPH_INLINE Vector power_of_eighths(Vector shifted) {
    const __m512i n = _mm512_castps_si512(shifted);
    const __m256i roots = _mm256_load_si256(reinterpret_cast<const __m256i*>(eighth_roots));
    const __m512i root = _mm512_maskz_permutexvar_epi32(every_lane, n, _mm512_maskz_broadcast_i32x8(every_lane, roots));
    return _mm512_castsi512_ps(_mm512_add_epi32(root, _mm512_maskz_slli_epi32(every_lane, n, 20)));
}
#elif defined(__AVX2__)
DMLGRAPH_INLINE Vector power_of_eighths(Vector shifted) {
    const __m256i n = _mm256_castps_si256(shifted);
    const __m256i root =
        _mm256_permutevar8x32_epi32(_mm256_load_si256(reinterpret_cast<const __m256i*>(eighth_roots)), n);
    return _mm256_castsi256_ps(_mm256_add_epi32(root, _mm256_slli_epi32(n, 20)));
}
#elif defined(__aarch64__) || defined(_M_ARM64)
DMLGRAPH_INLINE Vector power_of_eighths(Vector shifted) {
    const uint32x4_t n = vreinterpretq_u32_f32(shifted);
    const uint8x16x2_t roots = {
        {vreinterpretq_u8_u32(vld1q_u32(eighth_roots)), vreinterpretq_u8_u32(vld1q_u32(eighth_roots + 4))}};
    // The four bytes of each root.
    const uint32x4_t places = vmlaq_n_u32(vdupq_n_u32(0x03020100u), vandq_u32(n, vdupq_n_u32(7)), 0x04040404u);
    const uint32x4_t root = vreinterpretq_u32_u8(vqtbl2q_u8(roots, vreinterpretq_u8_u32(places)));
    return vreinterpretq_f32_u32(vaddq_u32(root, vshlq_n_u32(n, 20)));
}
#else
DMLGRAPH_INLINE Vector power_of_eighths(Vector shifted) {
    float n[lanes];
    store(n, shifted);
    for (float& each : n) {
        each = float_of(eighth_roots[bits_of(each) % 8] + (bits_of(each) << 20));
    }
    return load(n);
}
#endif

#if defined(__AVX512F__)
// The `exp` of exponential.h, whose last steps are one instruction.
DMLGRAPH_INLINE Vector exp(Vector x) {
    const Vector bounded = lesser(repeated(89.0f), greater(repeated(-104.0f), x));
    const Vector n = difference(product_sum(bounded, repeated(log2_e), repeated(whole)), repeated(whole));
    const Vector r = product_sum(n, repeated(-ln2_low), product_sum(n, repeated(-ln2_high), bounded));
    Vector rest = repeated(exp_terms[5]);
    DMLGRAPH_UNROLL
    for (int i = 4; i >= 0; --i) {
        rest = product_sum(rest, r, repeated(exp_terms[i]));
    }
    const Vector e = sum(repeated(1.0f), product_sum(times(r, r), rest, r));
    return _mm512_maskz_scalef_ps(every_lane, e, n);
}
#endif

// The whole number of eighths of an octave in e^x, as power_of_eighths takes it; and that number.
inline constexpr float whole_of_eighths = 0x1.8p23f + 8.0f * 191.0f;  // 127 + 64: the exponent's bits of 2^(n / 8 + 64)
DMLGRAPH_INLINE Vector eighths_of(Vector x) {
    return product_sum(x, repeated(8.0f * log2_e), repeated(whole_of_eighths));
}
DMLGRAPH_INLINE Vector eighths_in(Vector shifted) { return difference(shifted, repeated(whole_of_eighths)); }

// x - n (ln 2) / 8.
DMLGRAPH_INLINE Vector exact_rest_of_eighths(Vector x, Vector n) {
    return product_sum(n, repeated(-ln2_low / 8), product_sum(n, repeated(-ln2_high / 8), x));
}

// The same with an error of up to 2^-28 |x| with fused multiply-adds.
DMLGRAPH_INLINE Vector rest_of_eighths(Vector x, Vector n) {
#if defined(DMLGRAPH_FMA)
    return product_sum(n, repeated(-0x1.62e430p-4f), x);
#else
    return exact_rest_of_eighths(x, n);
#endif
}

// 2^(n / 8 + 64) e^rest: e^r = 1 + r + r² P(r) (2^-25.2).
DMLGRAPH_INLINE Vector power_of_eighths(Vector shifted, Vector rest) {
    const Vector curved = product_sum(rest, repeated(0x1.555656p-3f), repeated(0x1.000876p-1f));
    const Vector e = product_sum(curved, times(rest, rest), rest);
    const Vector power = power_of_eighths(shifted);
    return product_sum(power, e, power);
}

// The rounding error of a product: a · b - product.
DMLGRAPH_INLINE Vector error_of_product(Vector a, Vector b, Vector product) {
#if defined(__AVX512F__)
    return _mm512_fmsub_ps(a, b, product);
#elif defined(__AVX2__)
    return _mm256_fmsub_ps(a, b, product);
#elif defined(__aarch64__) || defined(_M_ARM64)
    return vfmaq_f32(vnegq_f32(product), a, b);
#else
    // Of halves of the bits, whose products are exact.
    const auto high = [](Vector x) {
        const Vector far = times(x, repeated(0x1p12f + 1.0f));
        return difference(far, difference(far, x));
    };
    const Vector a_high = high(a), b_high = high(b), a_low = difference(a, a_high), b_low = difference(b, b_high);
    const Vector inner = sum(times(a_high, b_low), times(a_low, b_high));
    return sum(sum(difference(times(a_high, b_high), product), inner), times(a_low, b_low));
#endif
}

// Where `power_of_eighths` is zero: -191 ln 2. Powers of scores that masks leave out are zeros, and products with these
// take no longer than others. Results that become zero in the last product take ten times as long.
inline constexpr float zero_power = -0x1.08c84p7f;

// x = e^x for x up to 0, within 2 units in the last place and 2^-28 |x|. Large results need no care.
template <int count>
DMLGRAPH_INLINE void exp_below_zero(Vector (&x)[count]) {
    DMLGRAPH_UNROLL
    for (int i = 0; i < count; ++i) {
        x[i] = greater(repeated(zero_power), x[i]);
        const Vector shifted = eighths_of(x[i]);
        // In two steps, the second of which makes small results subnormal.
        x[i] = times(power_of_eighths(shifted, rest_of_eighths(x[i], eighths_in(shifted))), repeated(0x1p-64f));
    }
}

}  // namespace
}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
