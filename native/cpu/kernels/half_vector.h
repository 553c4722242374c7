// Conversions of float16, of a number and of vectors.
#pragma once

#include "cpu/kernels/types.h"
#include "cpu/kernels/vector.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace {

// To nearest even; infinite beyond the range; NaN stays NaN.
// The integer forms follow from the bit layouts; a float32 addition rounds numbers that become subnormal.
DMLGRAPH_INLINE Half half_of(float value) {
    const std::uint32_t bits = bits_of(value);
    const std::uint32_t magnitude = bits & 0x7fffffffu;
    const std::uint32_t sign = bits >> 16 & 0x8000u;
    const std::uint32_t normal = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
    const std::uint32_t subnormal = bits_of(float_of(magnitude) + 0.5f) - 0x3f000000u;
    const std::uint32_t special = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
    const std::uint32_t finite = magnitude < 0x38800000u ? subnormal : normal;
    return {static_cast<std::uint16_t>(sign | (magnitude >= 0x47800000u ? special : finite))};
}

DMLGRAPH_INLINE float single_of(Half value) {
    const std::uint32_t sign = (value.bits & 0x8000u) << 16;
    const std::uint32_t shifted = (value.bits & 0x7fffu) << 13;
    const std::uint32_t exponent = shifted & 0x0f800000u;
    const std::uint32_t normal = shifted + 0x38000000u;
    const std::uint32_t subnormal = bits_of(float_of(shifted + 0x38800000u) - float_of(0x38800000u));
    const std::uint32_t special = shifted + 0x70000000u;
    const std::uint32_t finite = exponent == 0 ? subnormal : normal;
    return float_of(sign | (exponent == 0x0f800000u ? special : finite));
}

// With a count, fewer than a vector has lanes: others are not read or written, and become 0. `rounded` rounds to
// float16.
#if defined(__AVX2__)
constexpr int to_nearest_half = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
#endif
#if defined(__AVX512F__)

// GCC 12 warns of the forms without a mask, of its own header; the instructions are the same.
constexpr __mmask16 all_halves = 0xffff;
DMLGRAPH_INLINE __mmask16 first_halves(int count) { return static_cast<__mmask16>((1u << count) - 1u); }
DMLGRAPH_INLINE Vector singles_of(__m256i x) { return _mm512_maskz_cvtph_ps(all_halves, x); }
DMLGRAPH_INLINE __m256i halves_of(Vector x) { return _mm512_maskz_cvtps_ph(all_halves, x, to_nearest_half); }
DMLGRAPH_INLINE Vector load_halves(const Half* from) {
    return singles_of(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
DMLGRAPH_INLINE Vector load_halves(const Half* from, int count) {
    return singles_of(_mm256_maskz_loadu_epi16(first_halves(count), from));
}
DMLGRAPH_INLINE void store_halves(Half* to, Vector x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), halves_of(x));
}
DMLGRAPH_INLINE void store_halves(Half* to, Vector x, int count) {
    _mm256_mask_storeu_epi16(to, first_halves(count), halves_of(x));
}
DMLGRAPH_INLINE Vector rounded(Vector x) { return singles_of(halves_of(x)); }

#else

#if defined(__AVX2__)
DMLGRAPH_INLINE Vector load_halves(const Half* from) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
DMLGRAPH_INLINE __m128i halves_of(Vector x) { return _mm256_cvtps_ph(x, to_nearest_half); }
DMLGRAPH_INLINE void store_halves(Half* to, Vector x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), halves_of(x));
}
DMLGRAPH_INLINE Vector rounded(Vector x) { return _mm256_cvtph_ps(halves_of(x)); }
#elif defined(__aarch64__) || defined(_M_ARM64)
DMLGRAPH_INLINE Vector load_halves(const Half* from) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(&from->bits)));
}
DMLGRAPH_INLINE void store_halves(Half* to, Vector x) { vst1_u16(&to->bits, vreinterpret_u16_f16(vcvt_f16_f32(x))); }
DMLGRAPH_INLINE Vector rounded(Vector x) { return vcvt_f32_f16(vcvt_f16_f32(x)); }
#else
DMLGRAPH_INLINE Vector load_halves(const Half* from) {
    float singles[lanes];
    DMLGRAPH_LOOP
    for (int i = 0; i < lanes; ++i) {
        singles[i] = single_of(from[i]);
    }
    return load(singles);
}
DMLGRAPH_INLINE void store_halves(Half* to, Vector x) {
    float singles[lanes];
    store(singles, x);
    DMLGRAPH_LOOP
    for (int i = 0; i < lanes; ++i) {
        to[i] = half_of(singles[i]);
    }
}
DMLGRAPH_INLINE Vector rounded(Vector x) {
    Half halves[lanes];
    store_halves(halves, x);
    return load_halves(halves);
}
#endif
DMLGRAPH_INLINE Vector load_halves(const Half* from, int count) {
    Half some[lanes] = {};
    for (int i = 0; i < count; ++i) {
        some[i] = from[i];
    }
    return load_halves(some);
}
DMLGRAPH_INLINE void store_halves(Half* to, Vector x, int count) {
    Half some[lanes];
    store_halves(some, x);
    for (int i = 0; i < count; ++i) {
        to[i] = some[i];
    }
}

#endif

}  // namespace
}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
