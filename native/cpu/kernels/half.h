// float16: its conversions, and float16 kernels made from float32 ones.
#pragma once

#include "cpu/kernels/loops.h"
#include "cpu/kernels/types.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace {

#if defined(__AVX2__)
constexpr std::size_t converted = sizeof(__m256) / sizeof(float);  // elements that one F16C instruction converts
#endif

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

#if defined(__AVX2__)
DMLGRAPH_INLINE void to_eight_singles(const Half* x, float* out) {
    _mm256_storeu_ps(out, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x))));
}
DMLGRAPH_INLINE void to_eight_halves(const float* x, Half* out) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm256_cvtps_ph(_mm256_loadu_ps(x), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
#endif

// The results must lie elsewhere.
[[maybe_unused]] DMLGRAPH_ONCE void to_single(const Half* x, float* out, std::size_t count) {
    std::size_t i = 0;
#if defined(__AVX2__)
    for (; i < count / converted * converted; i += converted) {
        to_eight_singles(x + i, out + i);
    }
    if (i > 0 && i < count) {  // the last ones, some of them again
        to_eight_singles(x + count - converted, out + count - converted);
        return;
    }
#endif
    DMLGRAPH_LOOP
    for (; i < count; ++i) {
        out[i] = single_of(x[i]);
    }
}

// The results must lie elsewhere.
[[maybe_unused]] DMLGRAPH_ONCE void to_half(const float* x, Half* out, std::size_t count) {
    std::size_t i = 0;
#if defined(__AVX2__)
    for (; i < count / converted * converted; i += converted) {
        to_eight_halves(x + i, out + i);
    }
    if (i > 0 && i < count) {
        to_eight_halves(x + count - converted, out + count - converted);
        return;
    }
#endif
    DMLGRAPH_LOOP
    for (; i < count; ++i) {
        out[i] = half_of(x[i]);
    }
}

// A kernel of float32 operands as one of float16 operands. The result is float16, or the kernel's other result type.
template <Kernel kernel, std::size_t operands, class Result>
void in_half(const Call& call) noexcept {
    alignas(cache_line) float in[operands][chunk];
    alignas(cache_line) float result[chunk];
    Operand singles[operands];
    for (std::size_t k = 0; k < operands; ++k) {
        singles[k] = {in[k], call.in[k].scalar};
        if (call.in[k].scalar) {
            to_single(static_cast<const Half*>(call.in[k].data), in[k], 1);
        }
    }
    for (std::size_t start = 0; start < call.count; start += chunk) {
        const std::size_t count = call.count - start < chunk ? call.count - start : chunk;
        for (std::size_t k = 0; k < operands; ++k) {
            if (!call.in[k].scalar) {
                to_single(static_cast<const Half*>(call.in[k].data) + start, in[k], count);
            }
        }
        auto* out = static_cast<Result*>(call.out) + start;
        if constexpr (is_same<Result, Half>) {
            kernel({result, singles, count, call.immediates, 0});
            to_half(result, out, count);
        } else {
            kernel({out, singles, count, call.immediates, 0});
        }
    }
}

}  // namespace
}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
