// Weighted means of rows of floats, and of elements of a row.
#pragma once

#include <cstdint>

#include "cpu/kernels/kernel.h"

namespace dmlgraph::cpu {

inline constexpr std::int64_t most_lanes = 16;  // floats that a kernel reads at once

// out[i] = x₀ + Σ over t ≥ 1 of weights[t · step + i] · (x_t − x₀), where x_t = row[indices[t · step + i]]. The sum is
// computed in the order of the taps; with a single tap, elements are copied. Reads most_lanes − 1 elements beyond the
// row, and indices and weights up to a whole number of `most_lanes`.
struct PickCall {
    float* out;
    const float* row;
    const std::int32_t* indices;
    const float* weights;
    std::int64_t step;
    std::int64_t taps;
    std::int64_t count;
};

// out[i] = row[indices[i]], for indices of which each is that of the result before or the next one. Reads as `pick`
// does.
struct RepeatCall {
    float* out;
    const float* row;
    const std::int32_t* indices;
    std::int64_t count;
};

struct ResamplingKernels {
    // out += weight · row
    void (*add)(float* out, const float* row, float weight, std::int64_t count) noexcept;
    // out = total + weight · (next − first), which may be `total`.
    void (*blend)(float* out, const float* total, const float* first, const float* next, float weight,
                  std::int64_t count) noexcept;
    void (*pick)(const PickCall& call) noexcept;
    void (*repeat)(const RepeatCall& call) noexcept;
    // As `pick`, but out[i] = Σ over all t of weights[t · step + i] · x_t.
    void (*add_up)(const PickCall& call) noexcept;
};

}  // namespace dmlgraph::cpu
