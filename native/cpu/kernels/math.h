// Arithmetic that vectorises at every level: rounding, fused multiply-add, products with their errors.
#pragma once

#include <math.h>

#include "cpu/kernels/cast.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace {

#if defined(DMLGRAPH_FMA)
inline constexpr bool has_fma = true;
#else
inline constexpr bool has_fma = false;
#endif

inline constexpr float infinity = float_of(0x7f800000u);
inline constexpr float not_a_number = float_of(0x7fc00000u);

DMLGRAPH_INLINE float magnitude(float x) { return float_of(bits_of(x) & 0x7fffffffu); }
DMLGRAPH_INLINE double magnitude(double x) { return double_of(bits_of(x) & 0x7fffffffffffffffu); }
DMLGRAPH_INLINE float with_sign(float x, float sign) {
    return float_of((bits_of(x) & 0x7fffffffu) | (bits_of(sign) & 0x80000000u));
}

// x above 0, else 0.  The least number above 0 stands here because `x > 0 ? x : 0` is one instruction for ARM64, which
// makes NaN of a signalling NaN.
DMLGRAPH_INLINE float positive_part(float x) { return x >= 0x1p-149f ? x : 0.0f; }

// a * b + c, rounded once if the processor can; only where this affects nothing but accuracy.
DMLGRAPH_INLINE float multiply_add(float a, float b, float c) {
    if constexpr (has_fma) {
        return ::fmaf(a, b, c);
    } else {
        return a * b + c;
    }
}
DMLGRAPH_INLINE double multiply_add(double a, double b, double c) {
    if constexpr (has_fma) {
        return ::fma(a, b, c);
    } else {
        return a * b + c;
    }
}

// a * b + c, rounded to double and then once: the product is exact in double.
DMLGRAPH_INLINE float fused(float a, float b, float c) {
    return static_cast<float>(static_cast<double>(a) * static_cast<double>(b) + static_cast<double>(c));
}

// The rounding error of `product`: a * b - product.
DMLGRAPH_INLINE float product_error(float a, float b, float product) {
    if constexpr (has_fma) {
        return ::fmaf(a, b, -product);
    } else {
        return static_cast<float>(static_cast<double>(a) * static_cast<double>(b) - static_cast<double>(product));
    }
}

// Below 2^23 the sum with 2^23 has no bits for a fraction, so it is rounded.
DMLGRAPH_INLINE float round_to_even(float x) {
#ifdef DMLGRAPH_ROUNDS
    return ::rintf(x);
#else
    const float rounded = with_sign((magnitude(x) + 0x1p23f) - 0x1p23f, x);
    return magnitude(x) < 0x1p23f ? rounded : x;
#endif
}

DMLGRAPH_INLINE float truncate(float x) {
#ifdef DMLGRAPH_ROUNDS
    return ::truncf(x);
#else
    const float inside = magnitude(x) < 0x1p23f ? x : 0.0f;
    const float cut = with_sign(static_cast<float>(static_cast<i32>(inside)), x);
    return magnitude(x) < 0x1p23f ? cut : x;
#endif
}

DMLGRAPH_INLINE float floor(float x) {
#ifdef DMLGRAPH_ROUNDS
    return ::floorf(x);
#else
    const float cut = truncate(x);
    return cut > x ? cut - 1.0f : cut;
#endif
}

// Conversions of unsigned integers to doubles are vectorised only from AVX-512 on.
DMLGRAPH_INLINE double exact_double(u32 x) {
    return static_cast<double>(static_cast<i32>(x ^ 0x80000000u)) + 2147483648.0;
}

// c + c₁ x + c₂ x² …
template <class T>
DMLGRAPH_INLINE T polynomial(T, T c) {
    return c;
}
template <class T, class... Ts>
DMLGRAPH_INLINE T polynomial(T x, T c, Ts... higher) {
    return multiply_add(polynomial(x, higher...), x, c);
}

}  // namespace
}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
