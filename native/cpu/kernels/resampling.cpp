// Weighted means of rows of floats, and of elements of a row.
#include "cpu/kernels/resampling.h"

#include "cpu/kernels/level.h"
#include "cpu/kernels/part_vector.h"
#include "cpu/kernels/types.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace resampling {
namespace {

void blend(float* out, const float* total, const float* first, const float* next, float weight,
           std::int64_t count) noexcept {
    DMLGRAPH_LOOP
    for (std::int64_t i = 0; i < count; ++i) {
        out[i] = total[i] + weight * (next[i] - first[i]);
    }
}

void add(float* out, const float* row, float weight, std::int64_t count) noexcept {
    DMLGRAPH_LOOP
    for (std::int64_t i = 0; i < count; ++i) {
        out[i] += weight * row[i];
    }
}

#if defined(__AVX2__)

// The elements of a row at a vector of places from an element on, which are less than a vector away.
#if defined(__AVX512F__)
DMLGRAPH_INLINE __m512i places_of(const std::int32_t* indices) {
    return _mm512_sub_epi32(_mm512_loadu_si512(indices), _mm512_set1_epi32(indices[0]));
}
DMLGRAPH_INLINE Vector near_by(const float* from, __m512i places) {
    return _mm512_maskz_permutexvar_ps(every_lane, places, load(from));
}
#else
DMLGRAPH_INLINE __m256i places_of(const std::int32_t* indices) {
    return _mm256_sub_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(indices)),
                            _mm256_set1_epi32(indices[0]));
}
DMLGRAPH_INLINE Vector near_by(const float* from, __m256i places) {
    return _mm256_permutevar8x32_ps(load(from), places);
}
#endif

// The elements of a row at a vector of indices. Neighbouring results mostly have neighbouring elements, which are one
// vector.
DMLGRAPH_INLINE Vector picked(const float* row, const std::int32_t* indices) {
    const auto places = places_of(indices);
#if defined(__AVX512F__)
    if (_mm512_cmplt_epu32_mask(places, _mm512_set1_epi32(lanes)) == every_lane) {
        return near_by(row + indices[0], places);
    }
    return _mm512_mask_i32gather_ps(repeated(0.0f), every_lane, _mm512_loadu_si512(indices), row, sizeof(float));
#else
    const __m256i last = _mm256_set1_epi32(lanes - 1);
    if (_mm256_movemask_epi8(_mm256_cmpeq_epi32(_mm256_max_epu32(places, last), last)) == -1) {
        return near_by(row + indices[0], places);
    }
    return _mm256_i32gather_ps(row, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(indices)), sizeof(float));
#endif
}

void repeat(const RepeatCall& call) noexcept {
    const auto elements = [&](std::int64_t i) {
        return near_by(call.row + call.indices[i], places_of(call.indices + i));
    };
    if (call.count < lanes) {
        return store_part(call.out, elements(0), part(0, static_cast<int>(call.count)));
    }
    for (std::int64_t next = 0; next < call.count; next += lanes) {
        const std::int64_t i =
            next + lanes <= call.count ? next : call.count - lanes;  // some results again, rather than a part
        store(call.out + i, elements(i));
    }
}

DMLGRAPH_INLINE void store_results(const PickCall& call, std::int64_t i, Vector results) {
    if (i + lanes <= call.count) {
        store(call.out + i, results);
    } else {
        store_part(call.out + i, results, part(0, static_cast<int>(call.count - i)));
    }
}

void pick(const PickCall& call) noexcept {
    for (std::int64_t i = 0; i < call.count; i += lanes) {
        const Vector first = picked(call.row, call.indices + i);
        Vector total = first;
        for (std::int64_t t = 1; t < call.taps; ++t) {
            const std::int64_t at = t * call.step + i;
            // Rounded twice, as the reference does for integers, which are truncated afterwards.
            total = sum(total, times(load(call.weights + at), difference(picked(call.row, call.indices + at), first)));
        }
        store_results(call, i, total);
    }
}

void add_up(const PickCall& call) noexcept {
    for (std::int64_t i = 0; i < call.count; i += lanes) {
        Vector total = repeated(0.0f);
        for (std::int64_t t = 0; t < call.taps; ++t) {
            const std::int64_t at = t * call.step + i;
            total = product_sum(load(call.weights + at), picked(call.row, call.indices + at), total);
        }
        store_results(call, i, total);
    }
}

#else

void repeat(const RepeatCall& call) noexcept {
    for (std::int64_t i = 0; i < call.count; ++i) {
        call.out[i] = call.row[call.indices[i]];
    }
}

void pick(const PickCall& call) noexcept {
    for (std::int64_t i = 0; i < call.count; ++i) {
        const float first = call.row[call.indices[i]];
        float total = first;
        for (std::int64_t t = 1; t < call.taps; ++t) {
            const std::int64_t at = t * call.step + i;
            total += call.weights[at] * (call.row[call.indices[at]] - first);
        }
        call.out[i] = total;
    }
}

void add_up(const PickCall& call) noexcept {
    for (std::int64_t i = 0; i < call.count; ++i) {
        float total = 0;
        for (std::int64_t t = 0; t < call.taps; ++t) {
            const std::int64_t at = t * call.step + i;
            total += call.weights[at] * call.row[call.indices[at]];
        }
        call.out[i] = total;
    }
}

#endif

}  // namespace
}  // namespace resampling

constexpr ResamplingKernels resampling_kernels{resampling::add, resampling::blend, resampling::pick, resampling::repeat,
                                               resampling::add_up};

}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
