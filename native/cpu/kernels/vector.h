// The widest vectors of floats that a level has, and what products do with them. Compilers vectorise the loops of other
// kernels themselves, but do not keep a tile of sums in registers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "cpu/compiler.h"
#include "cpu/kernels/numbers.h"

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
DMLGRAPH_INLINE Vector difference(Vector a, Vector b) { return _mm512_sub_ps(a, b); }
DMLGRAPH_INLINE Vector times(Vector a, Vector b) { return _mm512_mul_ps(a, b); }
DMLGRAPH_INLINE Vector product_sum(Vector a, Vector b, Vector c) { return _mm512_fmadd_ps(a, b, c); }

// Of words, and sums of 32 bits: a is a row, b a column. Words of two numbers may also be loaded from bytes, which are
// signed.
using Words = __m512i;
DMLGRAPH_INLINE Words load_words(const std::uint32_t* from) { return _mm512_loadu_si512(from); }
DMLGRAPH_INLINE Words as_words(Vector x) { return _mm512_castps_si512(x); }
DMLGRAPH_INLINE Vector as_floats(Words x) { return _mm512_castsi512_ps(x); }
DMLGRAPH_INLINE void store(std::uint32_t* to, Words x) { _mm512_storeu_si512(to, x); }
DMLGRAPH_INLINE Words repeated_word(int x) { return _mm512_set1_epi32(x); }
DMLGRAPH_INLINE Words sum(Words a, Words b) { return _mm512_add_epi32(a, b); }
DMLGRAPH_INLINE Words either(Words kept, Words a, Words b) { return _mm512_or_si512(_mm512_and_si512(kept, a), b); }
#if defined(__AVX512VNNI__)
DMLGRAPH_INLINE Words product_sum(Words a, Words b, Words c) { return _mm512_dpbusd_epi32(c, b, a); }
#elif defined(DMLGRAPH_PAIRS)
DMLGRAPH_INLINE Words pair_sums(Words a, Words b) { return _mm512_maddubs_epi16(b, a); }
DMLGRAPH_INLINE Words sum_of_pairs(Words a, Words b) { return _mm512_add_epi16(a, b); }
DMLGRAPH_INLINE Words add_pairs(Words pairs, Words c) {
    return in_register(_mm512_add_epi32(_mm512_madd_epi16(pairs, _mm512_set1_epi16(1)), c));
}
#else
DMLGRAPH_INLINE Words product_sum(Words a, Words b, Words c) {
    return in_register(_mm512_add_epi32(_mm512_madd_epi16(a, b), c));
}
DMLGRAPH_INLINE Words load_bytes(const std::byte* from) {
    return _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
#endif

#elif defined(__AVX2__)

using Vector = __m256;
DMLGRAPH_INLINE Vector load(const float* from) { return _mm256_loadu_ps(from); }
DMLGRAPH_INLINE void store(float* to, Vector x) { _mm256_storeu_ps(to, x); }
DMLGRAPH_INLINE Vector repeated(float x) { return _mm256_set1_ps(x); }
DMLGRAPH_INLINE Vector sum(Vector a, Vector b) { return _mm256_add_ps(a, b); }
DMLGRAPH_INLINE Vector difference(Vector a, Vector b) { return _mm256_sub_ps(a, b); }
DMLGRAPH_INLINE Vector times(Vector a, Vector b) { return _mm256_mul_ps(a, b); }
DMLGRAPH_INLINE Vector product_sum(Vector a, Vector b, Vector c) { return _mm256_fmadd_ps(a, b, c); }

using Words = __m256i;
DMLGRAPH_INLINE Words load_words(const std::uint32_t* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}
DMLGRAPH_INLINE Words as_words(Vector x) { return _mm256_castps_si256(x); }
DMLGRAPH_INLINE Vector as_floats(Words x) { return _mm256_castsi256_ps(x); }
DMLGRAPH_INLINE void store(std::uint32_t* to, Words x) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), x); }
DMLGRAPH_INLINE Words repeated_word(int x) { return _mm256_set1_epi32(x); }
DMLGRAPH_INLINE Words sum(Words a, Words b) { return _mm256_add_epi32(a, b); }
DMLGRAPH_INLINE Words either(Words kept, Words a, Words b) { return _mm256_or_si256(_mm256_and_si256(kept, a), b); }
#if defined(__AVXVNNI__)
DMLGRAPH_INLINE Words product_sum(Words a, Words b, Words c) { return _mm256_dpbusd_avx_epi32(c, b, a); }
#elif defined(DMLGRAPH_PAIRS)
DMLGRAPH_INLINE Words pair_sums(Words a, Words b) { return _mm256_maddubs_epi16(b, a); }
DMLGRAPH_INLINE Words sum_of_pairs(Words a, Words b) { return _mm256_add_epi16(a, b); }
DMLGRAPH_INLINE Words add_pairs(Words pairs, Words c) {
    return in_register(_mm256_add_epi32(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)), c));
}
#else
DMLGRAPH_INLINE Words product_sum(Words a, Words b, Words c) {
    return in_register(_mm256_add_epi32(_mm256_madd_epi16(a, b), c));
}
DMLGRAPH_INLINE Words load_bytes(const std::byte* from) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
#endif

#elif defined(DMLGRAPH_X86)

using Vector = __m128;
DMLGRAPH_INLINE Vector load(const float* from) { return _mm_loadu_ps(from); }
DMLGRAPH_INLINE void store(float* to, Vector x) { _mm_storeu_ps(to, x); }
DMLGRAPH_INLINE Vector repeated(float x) { return _mm_set1_ps(x); }
DMLGRAPH_INLINE Vector sum(Vector a, Vector b) { return _mm_add_ps(a, b); }
DMLGRAPH_INLINE Vector difference(Vector a, Vector b) { return _mm_sub_ps(a, b); }
DMLGRAPH_INLINE Vector times(Vector a, Vector b) { return _mm_mul_ps(a, b); }
DMLGRAPH_INLINE Vector product_sum(Vector a, Vector b, Vector c) { return _mm_add_ps(_mm_mul_ps(a, b), c); }

using Words = __m128i;
DMLGRAPH_INLINE Words load_words(const std::uint32_t* from) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}
DMLGRAPH_INLINE Words as_words(Vector x) { return _mm_castps_si128(x); }
DMLGRAPH_INLINE Vector as_floats(Words x) { return _mm_castsi128_ps(x); }
DMLGRAPH_INLINE void store(std::uint32_t* to, Words x) { _mm_storeu_si128(reinterpret_cast<__m128i*>(to), x); }
DMLGRAPH_INLINE Words repeated_word(int x) { return _mm_set1_epi32(x); }
DMLGRAPH_INLINE Words sum(Words a, Words b) { return _mm_add_epi32(a, b); }
DMLGRAPH_INLINE Words product_sum(Words a, Words b, Words c) {
    return in_register(_mm_add_epi32(_mm_madd_epi16(a, b), c));
}
DMLGRAPH_INLINE Words load_bytes(const std::byte* from) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
    return _mm_srai_epi16(_mm_unpacklo_epi8(bytes, bytes), 8);
}

#elif defined(__aarch64__) || defined(_M_ARM64)

using Vector = float32x4_t;
DMLGRAPH_INLINE Vector load(const float* from) { return vld1q_f32(from); }
DMLGRAPH_INLINE void store(float* to, Vector x) { vst1q_f32(to, x); }
DMLGRAPH_INLINE Vector repeated(float x) { return vdupq_n_f32(x); }
DMLGRAPH_INLINE Vector sum(Vector a, Vector b) { return vaddq_f32(a, b); }
DMLGRAPH_INLINE Vector difference(Vector a, Vector b) { return vsubq_f32(a, b); }
DMLGRAPH_INLINE Vector times(Vector a, Vector b) { return vmulq_f32(a, b); }
DMLGRAPH_INLINE Vector product_sum(Vector a, Vector b, Vector c) { return vfmaq_f32(c, a, b); }

using Words = int32x4_t;
DMLGRAPH_INLINE Words load_words(const std::uint32_t* from) { return vreinterpretq_s32_u32(vld1q_u32(from)); }
DMLGRAPH_INLINE Words as_words(Vector x) { return vreinterpretq_s32_f32(x); }
DMLGRAPH_INLINE Vector as_floats(Words x) { return vreinterpretq_f32_s32(x); }
DMLGRAPH_INLINE void store(std::uint32_t* to, Words x) { vst1q_u32(to, vreinterpretq_u32_s32(x)); }
DMLGRAPH_INLINE Words repeated_word(int x) { return vdupq_n_s32(x); }
DMLGRAPH_INLINE Words sum(Words a, Words b) { return vaddq_s32(a, b); }
// Instructions multiply by a number of a vector.
template <int lane>
DMLGRAPH_INLINE Vector lane_product_sum(Vector a, Vector b, Vector c) {
    return vfmaq_laneq_f32(c, b, a, lane);
}
#if defined(__ARM_FEATURE_DOTPROD)
DMLGRAPH_INLINE Words product_sum(Words a, Words b, Words c) {
    return vdotq_s32(c, vreinterpretq_s8_s32(a), vreinterpretq_s8_s32(b));
}
template <int lane>
DMLGRAPH_INLINE Words lane_product_sum(Words a, Words b, Words c) {
    return vdotq_laneq_s32(c, vreinterpretq_s8_s32(b), vreinterpretq_s8_s32(a), lane);
}
#else
DMLGRAPH_INLINE Words product_sum(Words a, Words b, Words c) {
    const int16x8_t left = vreinterpretq_s16_s32(a), right = vreinterpretq_s16_s32(b);
    const int32x4_t low = vmull_s16(vget_low_s16(left), vget_low_s16(right));
    return vaddq_s32(c, vpaddq_s32(low, vmull_high_s16(left, right)));
}
template <int lane>
DMLGRAPH_INLINE Words lane_product_sum(Words a, Words b, Words c) {
    return product_sum(vdupq_laneq_s32(a, lane), b, c);
}
DMLGRAPH_INLINE Words load_bytes(const std::byte* from) {
    return vreinterpretq_s32_s16(vmovl_s8(vld1_s8(reinterpret_cast<const std::int8_t*>(from))));
}
#endif
#if defined(__ARM_FEATURE_MATMUL_INT8)
// Sums of eight products of each of two rows and two columns: row 0 with both columns, then row 1.
DMLGRAPH_INLINE Words square_sum(Words rows, Words columns, Words c) {
    return vmmlaq_s32(c, vreinterpretq_s8_s32(rows), vreinterpretq_s8_s32(columns));
}
// The words of two vectors in turn, of the first or the last two lanes.
DMLGRAPH_INLINE Words first_in_turn(Words a, Words b) { return vzip1q_s32(a, b); }
DMLGRAPH_INLINE Words last_in_turn(Words a, Words b) { return vzip2q_s32(a, b); }
// Of squares of four columns: row 0, row 1.
DMLGRAPH_INLINE Words first_halves(Words a, Words b) {
    return vreinterpretq_s32_s64(vzip1q_s64(vreinterpretq_s64_s32(a), vreinterpretq_s64_s32(b)));
}
DMLGRAPH_INLINE Words last_halves(Words a, Words b) {
    return vreinterpretq_s32_s64(vzip2q_s64(vreinterpretq_s64_s32(a), vreinterpretq_s64_s32(b)));
}
// Two words, and two zeros.
DMLGRAPH_INLINE Words load_two_words(const std::uint32_t* from) {
    return vreinterpretq_s32_u32(vcombine_u32(vld1_u32(from), vdup_n_u32(0)));
}
#endif

#else

// GCC and Clang have vectors for every processor.
using Vector = DMLGRAPH_VECTOR_OF(float);
DMLGRAPH_INLINE Vector load(const float* from) { return Vector{from[0], from[1], from[2], from[3]}; }
DMLGRAPH_INLINE void store(float* to, Vector x) { ::memcpy(to, &x, sizeof(x)); }
DMLGRAPH_INLINE Vector repeated(float x) { return Vector{x, x, x, x}; }
DMLGRAPH_INLINE Vector sum(Vector a, Vector b) { return a + b; }
DMLGRAPH_INLINE Vector difference(Vector a, Vector b) { return a - b; }
DMLGRAPH_INLINE Vector times(Vector a, Vector b) { return a * b; }
DMLGRAPH_INLINE Vector product_sum(Vector a, Vector b, Vector c) { return a * b + c; }

using Words = DMLGRAPH_VECTOR_OF(std::uint32_t);
using SignedWords = DMLGRAPH_VECTOR_OF(std::int32_t);
DMLGRAPH_INLINE Words as_words(Vector x) { return __builtin_bit_cast(Words, x); }
DMLGRAPH_INLINE Vector as_floats(Words x) { return __builtin_bit_cast(Vector, x); }
DMLGRAPH_INLINE Words load_words(const std::uint32_t* from) { return Words{from[0], from[1], from[2], from[3]}; }
DMLGRAPH_INLINE void store(std::uint32_t* to, Words x) { ::memcpy(to, &x, sizeof(x)); }
DMLGRAPH_INLINE Words repeated_word(int x) { return Words{} + static_cast<std::uint32_t>(x); }
DMLGRAPH_INLINE Words sum(Words a, Words b) { return a + b; }
DMLGRAPH_INLINE Words product_sum(Words a, Words b, Words c) {
    const auto low = [](Words x) { return __builtin_bit_cast(SignedWords, x << 16) >> 16; };
    const auto high = [](Words x) { return __builtin_bit_cast(SignedWords, x) >> 16; };
    return c + __builtin_bit_cast(Words, low(a) * low(b)) + __builtin_bit_cast(Words, high(a) * high(b));
}
DMLGRAPH_INLINE Words load_bytes(const std::byte* from) {
    const auto number = [](std::byte each) {
        return static_cast<std::uint32_t>(static_cast<std::int8_t>(each)) & 0xffff;
    };
    Words x{};
    for (int i = 0; i < 4; ++i) {
        x[i] = number(from[2 * i]) | number(from[2 * i + 1]) << 16;
    }
    return x;
}

#endif

#if defined(DMLGRAPH_PAIRS)
// Of words whose two sums of two products fit into 16 bits.
DMLGRAPH_INLINE Words product_sum(Words a, Words b, Words c) { return add_pairs(pair_sums(a, b), c); }
#endif

inline constexpr int lanes = sizeof(Vector) / sizeof(float);

// Makes all vectors of an array, or of a tile's rows, the same.
template <class V, int count>
DMLGRAPH_INLINE void set_all(V (&vectors)[count], V x) {
    DMLGRAPH_UNROLL
    for (int i = 0; i < count; ++i) {
        vectors[i] = x;
    }
}
template <class V, int rows, int count>
DMLGRAPH_INLINE void set_all(V (&tile)[rows][count], V x) {
    DMLGRAPH_UNROLL
    for (int i = 0; i < rows; ++i) {
        set_all(tile[i], x);
    }
}

// What a tile consists of, and how a number of a row and those of a column are multiplied.
struct Singles {
    static constexpr bool are_floats = true;
    using V = Vector;
    using Number = float;
    static DMLGRAPH_INLINE V load(const float* from) { return DMLGRAPH_LEVEL::load(from); }
    static DMLGRAPH_INLINE V column(const float* from, int first) { return load(from + first); }
    static DMLGRAPH_INLINE V repeated(float x) { return DMLGRAPH_LEVEL::repeated(x); }
    static DMLGRAPH_INLINE V multiplied(V row, V column, V sum) { return product_sum(row, column, sum); }
};
struct Integers {
    static constexpr bool are_floats = false;
    using V = Words;
    using Number = std::uint32_t;
    static DMLGRAPH_INLINE V load(const std::uint32_t* from) { return load_words(from); }
    static DMLGRAPH_INLINE V column(const std::uint32_t* from, int first) { return load(from + first); }
    static DMLGRAPH_INLINE V repeated(std::uint32_t x) { return repeated_word(static_cast<int>(x)); }
    static DMLGRAPH_INLINE V multiplied(V row, V column, V sum) { return product_sum(row, column, sum); }
};

#if defined(__aarch64__) || defined(_M_ARM64)
// The first numbers of a vector, and any others.
template <class Numbers, int count>
DMLGRAPH_INLINE typename Numbers::V first_numbers(const typename Numbers::Number* from) {
    if constexpr (count == 1) {
        return Numbers::repeated(*from);
    } else if constexpr (count == lanes) {
        return Numbers::load(from);
    } else {
        const float* const floats = NumbersAt(from).as<float>();
        Vector some = vcombine_f32(vld1_f32(floats), vdup_n_f32(0.0f));
        if constexpr (count == 3) {
            some = vld1q_lane_f32(floats + 2, some, 2);
        }
        if constexpr (Numbers::are_floats) {
            return some;
        } else {
            return as_words(some);
        }
    }
}
#endif

// What a word consists of: four 8-bit integers, of columns unsigned or signed, or two of 16 bits. Columns of two may
// also be read from bytes. With DMLGRAPH_PAIRS the sum of two products of 8-bit integers must fit into 16 bits.
#if defined(__AVX512VNNI__) || (defined(__AVXVNNI__) && !defined(__AVX512F__)) || defined(DMLGRAPH_PAIRS)
inline constexpr int depths_of_word = 4;
inline constexpr bool unsigned_columns = true;
using ColumnsOfBytes = Integers;
#elif defined(__ARM_FEATURE_DOTPROD)
inline constexpr int depths_of_word = 4;
inline constexpr bool unsigned_columns = false;
using ColumnsOfBytes = Integers;
#else
inline constexpr int depths_of_word = 2;
inline constexpr bool unsigned_columns = false;
struct ColumnsOfBytes : Integers {
    static DMLGRAPH_INLINE V column(const std::uint32_t* from, int first) {
        return load_bytes(reinterpret_cast<const std::byte*>(from) + first * depths_of_word);
    }
};
#endif

}  // namespace
}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
