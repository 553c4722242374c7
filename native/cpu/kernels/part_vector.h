// Parts of vectors of floats: some neighbouring lanes, every other lane; and the greater or lesser numbers of two
// vectors.
#pragma once

#include "cpu/kernels/vector.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace {

// greater(a, b) is a where a > b, else b; lesser(a, b) is a where a < b, else b. even(a, b) is lanes 0, 2, … of a, then
// of b; odd(a, b) the other ones; alternate(a, b) is the even lanes of a, then the odd ones of b. mixed_even and
// mixed_odd have the lanes in an order of their own, which in_order undoes: halves of a vector change places once, not
// for each pair. is_any_greater(a, b): whether a > b in some lane. store_first(to, x, count) stores the first lanes,
// fewer than all.
#if defined(__AVX512F__)

// GCC 12 warns of the form without a mask, of its own header; the instruction is the same.
constexpr __mmask16 every_lane = 0xffff;
DMLGRAPH_INLINE Vector greater(Vector a, Vector b) { return _mm512_maskz_max_ps(every_lane, a, b); }
DMLGRAPH_INLINE Vector lesser(Vector a, Vector b) { return _mm512_maskz_min_ps(every_lane, a, b); }
DMLGRAPH_INLINE bool is_any_greater(Vector a, Vector b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ) != 0; }
DMLGRAPH_INLINE Vector even(Vector a, Vector b) {
    const __m512i places = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    return _mm512_permutex2var_ps(a, places, b);
}
DMLGRAPH_INLINE Vector odd(Vector a, Vector b) {
    const __m512i places = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    return _mm512_permutex2var_ps(a, places, b);
}
DMLGRAPH_INLINE Vector alternate(Vector a, Vector b) {
    const __m512i places = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31);
    return _mm512_permutex2var_ps(a, places, b);
}
// The lanes first ≤ i < last; other lanes are not read. Without `others` they become 0.
using Part = __mmask16;
DMLGRAPH_INLINE Part part(int first, int last) { return static_cast<Part>((1u << last) - (1u << first)); }
DMLGRAPH_INLINE Vector load_part(const float* from, Part part, Vector others) {
    return _mm512_mask_loadu_ps(others, part, from);
}
DMLGRAPH_INLINE Vector load_part(const float* from, Part part) { return _mm512_maskz_loadu_ps(part, from); }
DMLGRAPH_INLINE void store_part(float* to, Vector x, Part part) { _mm512_mask_storeu_ps(to, part, x); }
DMLGRAPH_INLINE void store_first(float* to, Vector x, int count) { store_part(to, x, part(0, count)); }

#elif defined(__AVX2__)

DMLGRAPH_INLINE Vector greater(Vector a, Vector b) { return _mm256_max_ps(a, b); }
DMLGRAPH_INLINE Vector lesser(Vector a, Vector b) { return _mm256_min_ps(a, b); }
DMLGRAPH_INLINE bool is_any_greater(Vector a, Vector b) {
    return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ)) != 0;
}
DMLGRAPH_INLINE Vector mixed_even(Vector a, Vector b) { return _mm256_shuffle_ps(a, b, 0x88); }
DMLGRAPH_INLINE Vector mixed_odd(Vector a, Vector b) { return _mm256_shuffle_ps(a, b, 0xdd); }
DMLGRAPH_INLINE Vector in_order(Vector mixed) {
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(mixed), 0xd8));
}
DMLGRAPH_INLINE Vector even(Vector a, Vector b) { return in_order(mixed_even(a, b)); }
DMLGRAPH_INLINE Vector odd(Vector a, Vector b) { return in_order(mixed_odd(a, b)); }
DMLGRAPH_INLINE Vector alternate(Vector a, Vector b) { return in_order(_mm256_shuffle_ps(a, b, 0xd8)); }
using Part = __m256i;
DMLGRAPH_INLINE Part part(int first, int last) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_andnot_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(first), lane),
                               _mm256_cmpgt_epi32(_mm256_set1_epi32(last), lane));
}
DMLGRAPH_INLINE Vector load_part(const float* from, Part part, Vector others) {
    return _mm256_blendv_ps(others, _mm256_maskload_ps(from, part), _mm256_castsi256_ps(part));
}
DMLGRAPH_INLINE Vector load_part(const float* from, Part part) { return _mm256_maskload_ps(from, part); }
DMLGRAPH_INLINE void store_part(float* to, Vector x, Part part) { _mm256_maskstore_ps(to, part, x); }
// In pieces: some processors take as long for a store with a mask as for a dozen others.
DMLGRAPH_INLINE void store_first(float* to, Vector x, int count) {
    __m128 some = _mm256_castps256_ps128(x);
    if ((count & 4) != 0) {
        _mm_storeu_ps(to, some);
        some = _mm256_extractf128_ps(x, 1), to += 4;
    }
    if ((count & 2) != 0) {
        _mm_storel_pi(reinterpret_cast<__m64*>(to), some);
        some = _mm_movehl_ps(some, some), to += 2;
    }
    if ((count & 1) != 0) {
        _mm_store_ss(to, some);
    }
}

#else

#if defined(DMLGRAPH_X86)
DMLGRAPH_INLINE Vector greater(Vector a, Vector b) { return _mm_max_ps(a, b); }
DMLGRAPH_INLINE Vector lesser(Vector a, Vector b) { return _mm_min_ps(a, b); }
DMLGRAPH_INLINE bool is_any_greater(Vector a, Vector b) { return _mm_movemask_ps(_mm_cmpgt_ps(a, b)) != 0; }
DMLGRAPH_INLINE Vector even(Vector a, Vector b) { return _mm_shuffle_ps(a, b, 0x88); }
DMLGRAPH_INLINE Vector odd(Vector a, Vector b) { return _mm_shuffle_ps(a, b, 0xdd); }
DMLGRAPH_INLINE Vector alternate(Vector a, Vector b) { return _mm_shuffle_ps(a, b, 0xd8); }
#elif defined(__aarch64__) || defined(_M_ARM64)
DMLGRAPH_INLINE Vector greater(Vector a, Vector b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
DMLGRAPH_INLINE Vector lesser(Vector a, Vector b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
DMLGRAPH_INLINE bool is_any_greater(Vector a, Vector b) { return vmaxvq_u32(vcgtq_f32(a, b)) != 0; }
DMLGRAPH_INLINE Vector even(Vector a, Vector b) { return vuzp1q_f32(a, b); }
DMLGRAPH_INLINE Vector odd(Vector a, Vector b) { return vuzp2q_f32(a, b); }
DMLGRAPH_INLINE Vector alternate(Vector a, Vector b) {
    return vcombine_f32(vget_low_f32(vuzp1q_f32(a, a)), vget_low_f32(vuzp2q_f32(b, b)));
}
#else
DMLGRAPH_INLINE Vector greater(Vector a, Vector b) { return a > b ? a : b; }
DMLGRAPH_INLINE Vector lesser(Vector a, Vector b) { return a < b ? a : b; }
DMLGRAPH_INLINE bool is_any_greater(Vector a, Vector b) {
    const SignedWords is_greater = a > b;
    return (is_greater[0] | is_greater[1] | is_greater[2] | is_greater[3]) != 0;
}
DMLGRAPH_INLINE Vector even(Vector a, Vector b) { return Vector{a[0], a[2], b[0], b[2]}; }
DMLGRAPH_INLINE Vector odd(Vector a, Vector b) { return Vector{a[1], a[3], b[1], b[3]}; }
DMLGRAPH_INLINE Vector alternate(Vector a, Vector b) { return Vector{a[0], a[2], b[1], b[3]}; }
#endif
struct Part {
    int first;
    int last;
};
DMLGRAPH_INLINE Part part(int first, int last) { return {first, last}; }
DMLGRAPH_INLINE Vector load_part(const float* from, Part part, Vector others) {
    float numbers[lanes];
    store(numbers, others);
    for (int i = part.first; i < part.last; ++i) {
        numbers[i] = from[i];
    }
    return load(numbers);
}
DMLGRAPH_INLINE Vector load_part(const float* from, Part part) { return load_part(from, part, repeated(0.0f)); }
DMLGRAPH_INLINE void store_part(float* to, Vector x, Part part) {
    float numbers[lanes];
    store(numbers, x);
    for (int i = part.first; i < part.last; ++i) {
        to[i] = numbers[i];
    }
}
DMLGRAPH_INLINE void store_first(float* to, Vector x, int count) { store_part(to, x, part(0, count)); }

#endif

#if !defined(__AVX2__) || defined(__AVX512F__)
DMLGRAPH_INLINE Vector mixed_even(Vector a, Vector b) { return even(a, b); }
DMLGRAPH_INLINE Vector mixed_odd(Vector a, Vector b) { return odd(a, b); }
DMLGRAPH_INLINE Vector in_order(Vector mixed) { return mixed; }
#endif

}  // namespace
}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
