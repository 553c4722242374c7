// What formulas do with vectors besides sums and products: quotients, masks, bytes. A mask has all bits of a lane or
// none.
#pragma once

#include <math.h>

#include "cpu/kernels/half_vector.h"
#include "cpu/kernels/part_vector.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace {

// selected(mask, a, b) is a where the mask is set, else b. greater_number(a, b) and lesser_number(a, b) are as
// greater(a, b) and lesser(a, b), but a where b is NaN. load_bytes reads as many uint8 as there are lanes.
#if defined(__AVX512F__)

DMLGRAPH_INLINE Vector quotient(Vector a, Vector b) { return _mm512_div_ps(a, b); }
DMLGRAPH_INLINE Vector square_root(Vector x) { return _mm512_maskz_sqrt_ps(every_lane, x); }
DMLGRAPH_INLINE Vector bits_of_both(Vector a, Vector b) { return _mm512_and_ps(a, b); }
DMLGRAPH_INLINE Vector bits_of_either(Vector a, Vector b) { return _mm512_or_ps(a, b); }
DMLGRAPH_INLINE Vector bits_that_differ(Vector a, Vector b) { return _mm512_xor_ps(a, b); }
DMLGRAPH_INLINE Vector mask_of(__mmask16 lanes) { return _mm512_castsi512_ps(_mm512_movm_epi32(lanes)); }
DMLGRAPH_INLINE Vector is_less(Vector a, Vector b) { return mask_of(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ)); }
DMLGRAPH_INLINE Vector is_less_or_equal(Vector a, Vector b) { return mask_of(_mm512_cmp_ps_mask(a, b, _CMP_LE_OQ)); }
DMLGRAPH_INLINE Vector is_equal(Vector a, Vector b) { return mask_of(_mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ)); }
DMLGRAPH_INLINE Vector selected(Vector mask, Vector a, Vector b) {
    return _mm512_mask_blend_ps(_mm512_movepi32_mask(_mm512_castps_si512(mask)), b, a);
}
DMLGRAPH_INLINE Vector greater_number(Vector a, Vector b) {
    return _mm512_mask_max_ps(a, _mm512_cmp_ps_mask(b, b, _CMP_ORD_Q), a, b);
}
DMLGRAPH_INLINE Vector lesser_number(Vector a, Vector b) {
    return _mm512_mask_min_ps(a, _mm512_cmp_ps_mask(b, b, _CMP_ORD_Q), a, b);
}
DMLGRAPH_INLINE Vector load_bytes(const std::uint8_t* from) {
    return _mm512_maskz_cvtepi32_ps(
        every_lane, _mm512_maskz_cvtepu8_epi32(every_lane, _mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
}

#elif defined(__AVX2__)

DMLGRAPH_INLINE Vector quotient(Vector a, Vector b) { return _mm256_div_ps(a, b); }
DMLGRAPH_INLINE Vector square_root(Vector x) { return _mm256_sqrt_ps(x); }
DMLGRAPH_INLINE Vector bits_of_both(Vector a, Vector b) { return _mm256_and_ps(a, b); }
DMLGRAPH_INLINE Vector bits_of_either(Vector a, Vector b) { return _mm256_or_ps(a, b); }
DMLGRAPH_INLINE Vector bits_that_differ(Vector a, Vector b) { return _mm256_xor_ps(a, b); }
DMLGRAPH_INLINE Vector is_less(Vector a, Vector b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
DMLGRAPH_INLINE Vector is_less_or_equal(Vector a, Vector b) { return _mm256_cmp_ps(a, b, _CMP_LE_OQ); }
DMLGRAPH_INLINE Vector is_equal(Vector a, Vector b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
DMLGRAPH_INLINE Vector selected(Vector mask, Vector a, Vector b) { return _mm256_blendv_ps(b, a, mask); }
DMLGRAPH_INLINE Vector greater_number(Vector a, Vector b) {
    return _mm256_blendv_ps(_mm256_max_ps(a, b), a, _mm256_cmp_ps(b, b, _CMP_UNORD_Q));
}
DMLGRAPH_INLINE Vector lesser_number(Vector a, Vector b) {
    return _mm256_blendv_ps(_mm256_min_ps(a, b), a, _mm256_cmp_ps(b, b, _CMP_UNORD_Q));
}
DMLGRAPH_INLINE Vector load_bytes(const std::uint8_t* from) {
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
}

#else

#if defined(DMLGRAPH_X86)

DMLGRAPH_INLINE Vector quotient(Vector a, Vector b) { return _mm_div_ps(a, b); }
DMLGRAPH_INLINE Vector square_root(Vector x) { return _mm_sqrt_ps(x); }
DMLGRAPH_INLINE Vector bits_of_both(Vector a, Vector b) { return _mm_and_ps(a, b); }
DMLGRAPH_INLINE Vector bits_of_either(Vector a, Vector b) { return _mm_or_ps(a, b); }
DMLGRAPH_INLINE Vector bits_that_differ(Vector a, Vector b) { return _mm_xor_ps(a, b); }
DMLGRAPH_INLINE Vector is_less(Vector a, Vector b) { return _mm_cmplt_ps(a, b); }
DMLGRAPH_INLINE Vector is_less_or_equal(Vector a, Vector b) { return _mm_cmple_ps(a, b); }
DMLGRAPH_INLINE Vector is_equal(Vector a, Vector b) { return _mm_cmpeq_ps(a, b); }
DMLGRAPH_INLINE Vector selected(Vector mask, Vector a, Vector b) {
    return _mm_or_ps(_mm_and_ps(mask, a), _mm_andnot_ps(mask, b));
}

#elif defined(__aarch64__) || defined(_M_ARM64)

DMLGRAPH_INLINE uint32x4_t words_of(Vector x) { return vreinterpretq_u32_f32(x); }
DMLGRAPH_INLINE Vector vector_of(uint32x4_t x) { return vreinterpretq_f32_u32(x); }
DMLGRAPH_INLINE Vector quotient(Vector a, Vector b) { return vdivq_f32(a, b); }
DMLGRAPH_INLINE Vector square_root(Vector x) { return vsqrtq_f32(x); }
DMLGRAPH_INLINE Vector bits_of_both(Vector a, Vector b) { return vector_of(vandq_u32(words_of(a), words_of(b))); }
DMLGRAPH_INLINE Vector bits_of_either(Vector a, Vector b) { return vector_of(vorrq_u32(words_of(a), words_of(b))); }
DMLGRAPH_INLINE Vector bits_that_differ(Vector a, Vector b) { return vector_of(veorq_u32(words_of(a), words_of(b))); }
DMLGRAPH_INLINE Vector is_less(Vector a, Vector b) { return vector_of(vcltq_f32(a, b)); }
DMLGRAPH_INLINE Vector is_less_or_equal(Vector a, Vector b) { return vector_of(vcleq_f32(a, b)); }
DMLGRAPH_INLINE Vector is_equal(Vector a, Vector b) { return vector_of(vceqq_f32(a, b)); }
DMLGRAPH_INLINE Vector selected(Vector mask, Vector a, Vector b) { return vbslq_f32(words_of(mask), a, b); }

#else

DMLGRAPH_INLINE Vector mask_of(SignedWords lanes) { return __builtin_bit_cast(Vector, lanes); }
DMLGRAPH_INLINE Vector quotient(Vector a, Vector b) { return a / b; }
DMLGRAPH_INLINE Vector square_root(Vector x) {
    return Vector{::sqrtf(x[0]), ::sqrtf(x[1]), ::sqrtf(x[2]), ::sqrtf(x[3])};
}
DMLGRAPH_INLINE Vector bits_of_both(Vector a, Vector b) { return as_floats(as_words(a) & as_words(b)); }
DMLGRAPH_INLINE Vector bits_of_either(Vector a, Vector b) { return as_floats(as_words(a) | as_words(b)); }
DMLGRAPH_INLINE Vector bits_that_differ(Vector a, Vector b) { return as_floats(as_words(a) ^ as_words(b)); }
DMLGRAPH_INLINE Vector is_less(Vector a, Vector b) { return mask_of(a < b); }
DMLGRAPH_INLINE Vector is_less_or_equal(Vector a, Vector b) { return mask_of(a <= b); }
DMLGRAPH_INLINE Vector is_equal(Vector a, Vector b) { return mask_of(a == b); }
DMLGRAPH_INLINE Vector selected(Vector mask, Vector a, Vector b) { return as_words(mask) != 0 ? a : b; }

#endif

DMLGRAPH_INLINE Vector greater_number(Vector a, Vector b) { return selected(is_equal(b, b), greater(a, b), a); }
DMLGRAPH_INLINE Vector lesser_number(Vector a, Vector b) { return selected(is_equal(b, b), lesser(a, b), a); }
DMLGRAPH_INLINE Vector load_bytes(const std::uint8_t* from) {
    float numbers[lanes];
    for (int i = 0; i < lanes; ++i) {
        numbers[i] = static_cast<float>(from[i]);
    }
    return load(numbers);
}

#endif

}  // namespace
}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
