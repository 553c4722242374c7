// Vectors of numbers as 8-bit integers.
#pragma once

#include "cpu/kernels/part_vector.h"
#include "cpu/kernels/rounded_byte.h"
#include "cpu/kernels/types.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace {

// Stores what `rounded_to` gives of a vector of integers times a factor.
template <class T>
class VectorToBytes {
public:
    DMLGRAPH_INLINE explicit VectorToBytes(T zero_point)
        : zero_point_(zero_point),
          from_(repeated(static_cast<float>(least<T> - zero_point))),
          to_(repeated(static_cast<float>(greatest<T> - zero_point))) {}

#if defined(__AVX512F__)
    DMLGRAPH_INLINE void store(T* to, const std::uint32_t* integers, float factor) const {
        const Vector x = whole(_mm512_maskz_cvtepi32_ps(every_lane, load_words(integers)), factor);
        const __m128i bytes = _mm512_maskz_cvtepi32_epi8(
            every_lane, _mm512_add_epi32(_mm512_castps_si512(x), repeated_word(zero_point_)));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bytes);
    }
#elif defined(__AVX2__)
    DMLGRAPH_INLINE void store(T* to, const std::uint32_t* integers, float factor) const {
        const Vector x = whole(_mm256_cvtepi32_ps(load_words(integers)), factor);
        const __m256i bytes =
            _mm256_and_si256(_mm256_add_epi32(_mm256_castps_si256(x), repeated_word(zero_point_)), repeated_word(0xff));
        const __m128i pairs = _mm_packus_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
        _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_packus_epi16(pairs, pairs));
    }
#else
    DMLGRAPH_INLINE void store(T* to, const std::uint32_t* integers, float factor) const {
        for (int i = 0; i < lanes; ++i) {
            to[i] = rounded_to(static_cast<float>(static_cast<i32>(integers[i])) * factor, zero_point_);
        }
    }
#endif

private:
    // Within the bounds, and an integer in the last bits.
    DMLGRAPH_INLINE Vector whole(Vector x, float factor) const {
        return sum(lesser(greater(times(x, repeated(factor)), from_), to_), repeated(0x1.8p23f));
    }

    T zero_point_;
    Vector from_, to_;
};

}  // namespace
}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
