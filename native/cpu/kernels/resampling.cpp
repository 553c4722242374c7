// Weighted means of rows of floats, and of elements of a row.
#include "cpu/kernels/resampling.h"

#include "cpu/kernels/part_vector.h"
#include "cpu/kernels/resampling_tables.h"
#include "cpu/kernels/types.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace resampling {
namespace {

void blend(float* out, const float* total, const float* first, const float* next, float weight, std::int64_t count) noexcept {
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

// The elements of a row at a vector of indices. Neighbouring results mostly have neighbouring elements, which are one
// vector.
DMLGRAPH_INLINE Vector picked(const float* row, const std::int32_t* indices) {
    const float* const from = row + indices[0];
#if defined(__AVX512F__)
    const __m512i all = _mm512_loadu_si512(indices), places = _mm512_sub_epi32(all, _mm512_set1_epi32(indices[0]));
    if (_mm512_cmplt_epu32_mask(places, _mm512_set1_epi32(lanes)) == every_lane) {
        return _mm512_maskz_permutexvar_ps(every_lane, places, load(from));
    }
    return _mm512_mask_i32gather_ps(repeated(0.0f), every_lane, all, row, sizeof(float));
#else
    const __m256i all = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(indices));
    const __m256i places = _mm256_sub_epi32(all, _mm256_set1_epi32(indices[0]));
    const __m256i last = _mm256_set1_epi32(lanes - 1);
    if (_mm256_movemask_epi8(_mm256_cmpeq_epi32(_mm256_max_epu32(places, last), last)) == -1) {
        return _mm256_permutevar8x32_ps(load(from), places);
    }
    return _mm256_i32gather_ps(row, all, sizeof(float));
#endif
}

// The same if they are in one vector.
DMLGRAPH_INLINE Vector near_by(const float* row, const std::int32_t* indices) {
    const Vector elements = load(row + indices[0]);
#if defined(__AVX512F__)
    const __m512i places = _mm512_sub_epi32(_mm512_loadu_si512(indices), _mm512_set1_epi32(indices[0]));
    return _mm512_maskz_permutexvar_ps(every_lane, places, elements);
#else
    const __m256i all = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(indices));
    return _mm256_permutevar8x32_ps(elements, _mm256_sub_epi32(all, _mm256_set1_epi32(indices[0])));
#endif
}

void repeat(const RepeatCall& call) noexcept {
    std::int64_t i = 0;
    for (; i + lanes <= call.count; i += lanes) {
        store(call.out + i, near_by(call.row, call.indices + i));
    }
    if (i < call.count && call.count >= lanes) {
        i = call.count - lanes;  // some results again, rather than a part of a vector
        store(call.out + i, near_by(call.row, call.indices + i));
    } else if (i < call.count) {
        store_part(call.out, near_by(call.row, call.indices), part(0, static_cast<int>(call.count)));
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

constexpr ResamplingKernels kernels{add, blend, pick, repeat, add_up};

}  // namespace
}  // namespace resampling

const ResamplingKernels& resampling_table() { return resampling::kernels; }

}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
