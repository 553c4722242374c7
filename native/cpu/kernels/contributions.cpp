// Sums of contributions, phase by phase, and phases that become rows of outputs.
#include "cpu/kernels/contributions.h"

#include "cpu/kernels/level.h"
#include "cpu/kernels/part_vector.h"
#include "cpu/kernels/picture_row.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace contributions {
namespace {

// The first halves of two vectors, lane by lane in turn; and the second halves.
#if defined(__AVX512F__)
DMLGRAPH_INLINE Vector first_in_turn(Vector a, Vector b) {
    const __m512i places = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    return _mm512_permutex2var_ps(a, places, b);
}
DMLGRAPH_INLINE Vector last_in_turn(Vector a, Vector b) {
    const __m512i places = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    return _mm512_permutex2var_ps(a, places, b);
}
#elif defined(__AVX2__)
DMLGRAPH_INLINE Vector first_in_turn(Vector a, Vector b) {
    return _mm256_permute2f128_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b), 0x20);
}
DMLGRAPH_INLINE Vector last_in_turn(Vector a, Vector b) {
    return _mm256_permute2f128_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b), 0x31);
}
#elif defined(DMLGRAPH_X86)
DMLGRAPH_INLINE Vector first_in_turn(Vector a, Vector b) { return _mm_unpacklo_ps(a, b); }
DMLGRAPH_INLINE Vector last_in_turn(Vector a, Vector b) { return _mm_unpackhi_ps(a, b); }
#elif defined(__aarch64__) || defined(_M_ARM64)
DMLGRAPH_INLINE Vector first_in_turn(Vector a, Vector b) { return vzip1q_f32(a, b); }
DMLGRAPH_INLINE Vector last_in_turn(Vector a, Vector b) { return vzip2q_f32(a, b); }
#else
DMLGRAPH_INLINE Vector first_in_turn(Vector a, Vector b) { return Vector{a[0], b[0], a[1], b[1]}; }
DMLGRAPH_INLINE Vector last_in_turn(Vector a, Vector b) { return Vector{a[2], b[2], a[3], b[3]}; }
#endif

// Lane by lane, those of all vectors in turn. A power of 2 of them.
template <int count>
DMLGRAPH_INLINE void interleave(Vector (&x)[count]) {
    if constexpr (count > 1) {
        Vector even[count / 2], odd[count / 2];
        DMLGRAPH_UNROLL
        for (int i = 0; i < count / 2; ++i) {
            even[i] = x[2 * i], odd[i] = x[2 * i + 1];
        }
        interleave(even);
        interleave(odd);
        DMLGRAPH_UNROLL
        for (int i = 0; i < count / 2; ++i) {
            x[2 * i] = first_in_turn(even[i], odd[i]), x[2 * i + 1] = last_in_turn(even[i], odd[i]);
        }
    }
}

// Vectors become outputs, whose number is `room`.
template <int stride>
DMLGRAPH_INLINE void store_interleaved(float* out, Vector (&totals)[stride], std::int64_t room) {
    if constexpr ((stride & (stride - 1)) == 0) {
        interleave(totals);
    } else {
        float numbers[stride][lanes], mixed[stride * lanes];
        DMLGRAPH_UNROLL
        for (int p = 0; p < stride; ++p) {
            store(numbers[p], totals[p]);
        }
        DMLGRAPH_LOOP
        for (int i = 0; i < lanes; ++i) {
            DMLGRAPH_UNROLL
            for (int p = 0; p < stride; ++p) {
                mixed[i * stride + p] = numbers[p][i];
            }
        }
        DMLGRAPH_UNROLL
        for (int p = 0; p < stride; ++p) {
            totals[p] = load(mixed + p * lanes);
        }
    }
    if (room >= stride * lanes) {
        DMLGRAPH_UNROLL
        for (int j = 0; j < stride; ++j) {
            store(out + j * lanes, totals[j]);
        }
        return;
    }
    DMLGRAPH_UNROLL
    for (int j = 0; j < stride; ++j) {
        if (room > j * lanes) {
            store_part(out + j * lanes, totals[j], part(0, within(room - j * lanes)));
        }
    }
}

// The outputs q … q + lanes − 1 of a phase.
DMLGRAPH_INLINE Vector total_of(const ContributionsCall& call, std::int64_t row, std::int64_t phase, std::int64_t q) {
    const TapOfRow *const first = call.taps + call.first_tap[phase], *const last =
                                                                         call.taps + call.first_tap[phase + 1];
    Vector total = repeated(0.0f);
    for (std::int64_t l = call.first_line[row]; l < call.first_line[row + 1]; ++l) {
        const float* const line = call.in + call.lines[l];
        for (const TapOfRow* tap = first; tap < last; ++tap) {
            const std::int64_t at = q + tap->shift;
            const float* const from = line + tap->line + at;
            const bool inside = at >= 0 && at + lanes <= call.elements;
            total = sum(total, inside ? load(from) : load_part(from, part(within(-at), within(call.elements - at))));
        }
    }
    return total;
}

constexpr std::int64_t most_taps = 64;

// A vector of each phase, in all rows: its taps have the same elements in each of them, whole vectors or parts.
template <int stride, bool whole>
DMLGRAPH_INLINE void vectors_of_rows(const ContributionsCall& call, std::int64_t first,
                                     const std::int64_t (&places)[most_taps], const Part (&parts)[most_taps]) {
    const float* const in = call.in + first / stride;
    const std::int64_t* line = call.lines + call.first_line[0];
    float* out = call.out + first;
    for (std::int64_t r = 0; r < call.rows; ++r, out += call.count) {
        Vector totals[stride];
        set_all(totals, repeated(0.0f));
        for (const std::int64_t* const last = call.lines + call.first_line[r + 1]; line < last; ++line) {
            const float* const from = in + *line;
            std::int64_t t = call.first_tap[0];
            DMLGRAPH_UNROLL
            for (int p = 0; p < stride; ++p) {
                for (const std::int64_t end = call.first_tap[p + 1]; t < end; ++t) {
                    totals[p] = sum(totals[p], whole ? load(from + places[t]) : load_part(from + places[t], parts[t]));
                }
            }
        }
        store_interleaved(out, totals, call.count - first);
    }
}

template <int stride>
void rows_of(const ContributionsCall& call) {
    const std::int64_t taps = call.first_tap[stride];
    std::int64_t places[most_taps], least = 0, most = 0;
    for (std::int64_t t = 0; t < taps; ++t) {
        const std::int64_t shift = call.taps[t].shift;
        places[t] = call.taps[t].line + shift;
        least = t == 0 || shift < least ? shift : least;
        most = t == 0 || shift > most ? shift : most;
    }
    Part parts[most_taps];
    for (std::int64_t first = 0; first < call.count; first += stride * lanes) {
        const std::int64_t q = first / stride;
        if (q + least >= 0 && q + most + lanes <= call.elements) {
            vectors_of_rows<stride, true>(call, first, places, parts);
            continue;
        }
        for (std::int64_t t = 0; t < taps; ++t) {
            const std::int64_t at = q + call.taps[t].shift;
            parts[t] = part(within(-at), within(call.elements - at));
        }
        vectors_of_rows<stride, false>(call, first, places, parts);
    }
}

void any_rows(const ContributionsCall& call) {
    for (std::int64_t r = 0; r < call.rows; ++r) {
        float* const out = call.out + r * call.count;
        for (std::int64_t p = 0; p < call.stride; ++p) {
            for (std::int64_t at = p; at < call.count; at += call.stride * lanes) {
                float total[lanes];
                store(total, total_of(call, r, p, at / call.stride));
                float* to = out + at;
                const std::int64_t rest = (call.count - at - 1) / call.stride + 1;
                for (int i = 0; i < lanes && i < rest; ++i, to += call.stride) {
                    *to = total[i];
                }
            }
        }
    }
}

void add_up(const ContributionsCall& call) noexcept {
    if (call.first_tap[call.stride] > most_taps) {
        return any_rows(call);
    }
    switch (call.stride) {
        case 1: return rows_of<1>(call);
        case 2: return rows_of<2>(call);
        case 3: return rows_of<3>(call);
        case 4: return rows_of<4>(call);
        case 5: return rows_of<5>(call);
        case 8: return rows_of<8>(call);
        default: return any_rows(call);
    }
}

}  // namespace
}  // namespace contributions

constexpr ContributionKernels contributions_kernels{contributions::add_up};

}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
