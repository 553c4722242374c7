// Outputs of backward convolutions as sums of what elements contribute to them: see products/contributions.h.
#pragma once

#include <cstdint>

#include "cpu/kernels/kernel.h"

namespace dmlgraph::cpu {

// What neighbouring elements of a row contribute at a tap along it: element q + shift to output q of a phase.
struct TapOfRow {
    std::int64_t line;  // floats from where the contributions at the first tap are
    std::int64_t shift;
};

// out[r · count + q · stride + p] = the sum of in[l + t.line + q + t.shift] over the lines l of row r,
// lines[first_line[r]] … lines[first_line[r + 1] − 1], and, of each, over the taps t of phase p, taps[first_tap[p]] …
// taps[first_tap[p + 1] − 1], in this order. There are contributions of the elements 0 … elements − 1 only.
struct ContributionsCall {
    float* out;
    std::int64_t rows;
    std::int64_t count;
    std::int64_t stride;
    const float* in;
    std::int64_t elements;
    const std::int64_t* lines;
    const std::int64_t* first_line;
    const TapOfRow* taps;
    const std::int64_t* first_tap;
};

using ContributionsKernel = void (*)(const ContributionsCall& call) noexcept;

struct ContributionKernels {
    ContributionsKernel add_up;
};

}  // namespace dmlgraph::cpu
