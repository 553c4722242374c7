// Vectors of the words of a panel of nibbles (see few_bits.h).
#pragma once

#include "cpu/kernels/few_bits.h"
#include "cpu/kernels/types.h"
#include "cpu/kernels/vector.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace {

inline constexpr int nibble_vectors = nibble_lines / lanes;

// (bits & mask) | other.
DMLGRAPH_INLINE Words joined(Words bits, Words mask, Words other) {
#if defined(__AVX512F__)
    return _mm512_ternarylogic_epi32(bits, mask, other, 0xea);
#elif defined(__AVX2__)
    return either(bits, mask, other);
#elif defined(DMLGRAPH_X86)
    return _mm_or_si128(_mm_and_si128(bits, mask), other);
#elif defined(__aarch64__) || defined(_M_ARM64)
    return vorrq_s32(vandq_s32(bits, mask), other);
#else
    return (bits & mask) | other;
#endif
}

// The bits from `first` on, and behind them any of the lower half where that is 4.
template <int first>
DMLGRAPH_INLINE Words from_bit(Words bits) {
#if defined(__AVX512F__)
    return _mm512_maskz_srli_epi32(0xffff, bits, first);  // GCC 12 warns of the form without a mask, of its own header
#elif defined(__AVX2__)
    return _mm256_srli_epi32(bits, first);
#elif defined(DMLGRAPH_X86)
    return _mm_srli_epi32(bits, first);
#elif defined(__aarch64__) || defined(_M_ARM64)
    if constexpr (first == 0) {  // Clang has no shift by it
        return bits;
    } else {
        return vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(bits), first));
    }
#else
    return bits >> first;
#endif
}

// The numbers of nibbles less zero points, exactly. Nibble j of a half word is in the mantissa of a float whose last
// bit is 2^(−4j), without a shift: that float is 2^(23 − 4j) + nibble.
inline constexpr int nibbles_of_half = 4;

struct NibbleFloats {
    Vector taken[nibbles_of_half];  // 2^(23 − 4j) + zero point

    DMLGRAPH_INLINE explicit NibbleFloats(Vector zeros) {
        DMLGRAPH_UNROLL
        for (int j = 0; j < nibbles_of_half; ++j) {
            taken[j] = sum(as_floats(repeated_word(exponent(j))), zeros);
        }
    }
    static constexpr int exponent(int j) { return (127 + 23 - 4 * j) << 23; }
    DMLGRAPH_INLINE Vector number(Words bits, int j) const {
        return difference(as_floats(joined(bits, repeated_word(15 << 4 * j), repeated_word(exponent(j)))), taken[j]);
    }
};

// Calls function(j, numbers) for the 8 nibbles j of words.
template <class Function>
DMLGRAPH_INLINE void each_nibble(Words bits, const NibbleFloats& floats, const Function& function) {
    const Words high = from_bit<16>(bits);
    DMLGRAPH_UNROLL
    for (int j = 0; j < nibble_depths; ++j) {
        function(j, floats.number(j < nibbles_of_half ? bits : high, j % nibbles_of_half));
    }
}

// Of the vector v of a panel's lines: the words from a depth on, and the scales and zero points of a block.
DMLGRAPH_INLINE const std::uint32_t* nibble_words(const NibblePanel& b, std::int64_t depth, int v) {
    return b.words + depth / nibble_depths * nibble_lines + v * lanes;
}
DMLGRAPH_INLINE Vector nibble_scales(const NibblePanel& b, std::int64_t block, int v) {
    return load(b.scales + block * nibble_lines + v * lanes);
}
DMLGRAPH_INLINE Vector nibble_zeros(const NibblePanel& b, std::int64_t block, int v) {
    if (b.zeros == nullptr) {
        return repeated(b.zero);
    }
    const u8* const zeros = b.zeros + block * nibble_lines + v * lanes;
#if defined(__AVX512F__)
    constexpr __mmask16 all = 0xffff;
    return _mm512_maskz_cvtepi32_ps(
        all, _mm512_maskz_cvtepu8_epi32(all, _mm_loadu_si128(reinterpret_cast<const __m128i*>(zeros))));
#elif defined(__AVX2__)
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(zeros))));
#else
    float numbers[lanes];
    DMLGRAPH_UNROLL
    for (int i = 0; i < lanes; ++i) {
        numbers[i] = static_cast<float>(zeros[i]);
    }
    return load(numbers);
#endif
}

}  // namespace
}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
