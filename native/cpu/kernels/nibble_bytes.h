// Rows of 8-bit integers times 4-bit weights, in integers within a block.
#pragma once

#if !defined(DMLGRAPH_PAIRS)

#include <cstring>

#include "cpu/kernels/nibbles.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace nibble_bytes {
namespace {

// A word of weights becomes words of four unsigned bytes, at the even depths and at the odd ones, or words of two
// numbers of 16 bits: those of depth j and j + 4.
#if defined(__AVX2__) || defined(__ARM_FEATURE_DOTPROD)
inline constexpr int words_of_nibbles = 2;
#else
inline constexpr int words_of_nibbles = 4;
#endif
inline constexpr int nibbles_of_word = nibble_depths / words_of_nibbles;

DMLGRAPH_INLINE Words zero_words() { return repeated_word(0); }

DMLGRAPH_INLINE Vector to_floats(Words x) {
#if defined(__AVX512F__)
    return _mm512_maskz_cvtepi32_ps(0xffff, x);
#elif defined(__AVX2__)
    return _mm256_cvtepi32_ps(x);
#elif defined(DMLGRAPH_X86)
    return _mm_cvtepi32_ps(x);
#elif defined(__aarch64__) || defined(_M_ARM64)
    return vcvtq_f32_s32(x);
#else
    const SignedWords words = __builtin_bit_cast(SignedWords, x);
    Vector numbers{};
    for (int i = 0; i < lanes; ++i) {
        numbers[i] = static_cast<float>(words[i]);
    }
    return numbers;
#endif
}

// Without an instruction for words of four bytes, sums have 16 bits: each is one of at most 16 products, which are
// below 16 · 128.
#if defined(__AVX2__) && !defined(__AVX512VNNI__) && !defined(__AVXVNNI__)
inline constexpr bool sums_are_wide = false;
#if defined(__AVX512F__)
DMLGRAPH_INLINE Words add_products(Words row, Words weights, Words c) {
    return _mm512_add_epi16(c, _mm512_maddubs_epi16(weights, row));
}
DMLGRAPH_INLINE Words wide_sums(Words x) { return _mm512_madd_epi16(x, _mm512_set1_epi16(1)); }
#else
DMLGRAPH_INLINE Words add_products(Words row, Words weights, Words c) {
    return _mm256_add_epi16(c, _mm256_maddubs_epi16(weights, row));
}
DMLGRAPH_INLINE Words wide_sums(Words x) { return _mm256_madd_epi16(x, _mm256_set1_epi16(1)); }
#endif
#else
inline constexpr bool sums_are_wide = true;
DMLGRAPH_INLINE Words add_products(Words row, Words weights, Words c) { return product_sum(row, weights, c); }
DMLGRAPH_INLINE Words wide_sums(Words x) { return x; }
#endif

inline constexpr std::int64_t most_narrow_depths = 32;

template <int j>
DMLGRAPH_INLINE Words weights_of(Words bits) {
    return joined(from_bit<4 * j>(bits), repeated_word(words_of_nibbles == 2 ? 0x0f0f0f0f : 0x000f000f), zero_words());
}

#if defined(__aarch64__) || defined(_M_ARM64)
// Adds the products of a word of nibbles of each line. A row's words are loaded together.
template <int rows>
DMLGRAPH_INLINE void add_nibbles(Words bits, const std::uint32_t* a, std::int64_t a_step, Words (&sums)[rows]) {
    DMLGRAPH_UNROLL
    for (int r = 0; r < rows; ++r) {
        const Words row = first_numbers<Integers, words_of_nibbles>(a + r * a_step);
        sums[r] = lane_product_sum<0>(row, weights_of<0>(bits), sums[r]);
        sums[r] = lane_product_sum<1>(row, weights_of<1>(bits), sums[r]);
        if constexpr (words_of_nibbles == 4) {
            sums[r] = lane_product_sum<2>(row, weights_of<2>(bits), sums[r]);
            sums[r] = lane_product_sum<3>(row, weights_of<3>(bits), sums[r]);
        }
    }
}
#else
template <int rows>
DMLGRAPH_INLINE void add_all(Words weights, const std::uint32_t* a, std::int64_t a_step, Words (&sums)[rows]) {
    DMLGRAPH_UNROLL
    for (int r = 0; r < rows; ++r) {
        sums[r] = add_products(repeated_word(static_cast<int>(a[r * a_step])), weights, sums[r]);
    }
}

template <int rows>
DMLGRAPH_INLINE void add_nibbles(Words bits, const std::uint32_t* a, std::int64_t a_step, Words (&sums)[rows]) {
    add_all<rows>(weights_of<0>(bits), a, a_step, sums);
    add_all<rows>(weights_of<1>(bits), a + 1, a_step, sums);
    if constexpr (words_of_nibbles == 4) {
        add_all<rows>(weights_of<2>(bits), a + 2, a_step, sums);
        add_all<rows>(weights_of<3>(bits), a + 3, a_step, sums);
    }
}
#endif

// Adds the products of some depths of a vector of lines.
template <int rows>
DMLGRAPH_INLINE void multiply_some(const std::uint32_t* words, std::int64_t depth, const std::uint32_t* a,
                                   std::int64_t a_step, Words (&out)[rows]) {
    Words sums[rows];
    DMLGRAPH_UNROLL
    for (int r = 0; r < rows; ++r) {
        sums[r] = sums_are_wide ? out[r] : zero_words();
    }
    for (std::int64_t k = 0; k < depth; k += nibble_depths, words += nibble_lines, a += words_of_nibbles) {
        add_nibbles<rows>(load_words(words), a, a_step, sums);
    }
    DMLGRAPH_UNROLL
    for (int r = 0; r < rows; ++r) {
        out[r] = sums_are_wide ? sums[r] : sum(out[r], wide_sums(sums[r]));
    }
}

template <int rows>
void multiply(const NibbleBytesCall& call) noexcept {
    const NibbleBytesCall c = call;
    Vector totals[nibble_vectors][rows];
    set_all(totals, repeated(0.0f));
    for (std::int64_t first = 0, b = 0; first < c.b.depth; first += c.b.block, ++b) {
        const std::int64_t end = c.b.depth - first < c.b.block ? c.b.depth : first + c.b.block;
        for (int v = 0; v < nibble_vectors; ++v) {
            Words sums[rows];
            set_all(sums, zero_words());
            for (std::int64_t k = first, depth = 0; k < end; k += depth) {
                depth = sums_are_wide || end - k < most_narrow_depths ? end - k : most_narrow_depths;
                multiply_some<rows>(nibble_words(c.b, k, v), depth, c.a + k / nibbles_of_word, c.a_step, sums);
            }
            const Vector zeros = nibble_zeros(c.b, b, v), scales = nibble_scales(c.b, b, v);
            DMLGRAPH_UNROLL
            for (int r = 0; r < rows; ++r) {
                const std::int64_t of_row = r * c.block_step + b;
                const Vector exact = product_sum(repeated(c.a_sums[of_row]), zeros, to_floats(sums[r]));
                totals[v][r] = product_sum(times(repeated(c.a_scales[of_row]), scales), exact, totals[v][r]);
            }
        }
    }
    for (int v = 0; v < nibble_vectors; ++v) {
        for (int r = 0; r < rows; ++r) {
            store(c.sums + r * c.step + v * lanes, totals[v][r]);
        }
    }
}

void rows(const NibbleBytesCall& call) noexcept {
    using Kernel = void (*)(const NibbleBytesCall&) noexcept;
    static constexpr Kernel by_rows[most_nibble_rows] = {multiply<1>, multiply<2>, multiply<3>, multiply<4>,
                                                         multiply<5>, multiply<6>, multiply<7>, multiply<8>};
    by_rows[call.rows - 1](call);
}

void words(std::uint32_t* out, const std::int8_t* in, std::int64_t count) noexcept {
    if constexpr (words_of_nibbles == 2) {
        const auto together = [](std::uint64_t x) {  // its even bytes
            x &= 0x00ff00ff00ff00ffu;
            x = (x | x >> 8) & 0x0000ffff0000ffffu;
            return (x | x >> 16) & 0xffffffffu;
        };
        for (std::int64_t i = 0; i < count / nibble_depths; ++i) {
            std::uint64_t x;
            ::memcpy(&x, in + i * nibble_depths, sizeof(x));
            x = together(x) | together(x >> 8) << 32;
            ::memcpy(out + 2 * i, &x, sizeof(x));
        }
    } else {
        for (std::int64_t i = 0; i < count; i += nibble_depths, out += words_of_nibbles) {
            DMLGRAPH_UNROLL
            for (int j = 0; j < words_of_nibbles; ++j) {
                const auto number = [&](std::int64_t depth) { return static_cast<u32>(static_cast<u16>(in[depth])); };
                out[j] = number(i + j) | number(i + j + words_of_nibbles) << 16;
            }
        }
    }
}

}  // namespace
}  // namespace nibble_bytes
}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL

#endif
