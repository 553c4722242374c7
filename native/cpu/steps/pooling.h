// Maxima and sums of windows in up to three dimensions.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/plan/plan.h"
#include "cpu/runtime/step.h"

namespace dmlgraph::cpu {

// Input 0: the tensor {batch…, spatial…}, with at most two dimensions before the spatial ones. Outputs: the results
// {batch…, counts…}; of maxima, if asked for, their row-major indices in the tensor, uint32 or uint64, 0 where a window
// has no element.
//
// A maximum is the greatest element in a window that is more than the least number of the type. Sums are of float32 and
// float16, accumulated in float32. What follows them is the epilogue: its operands are the inputs from 2 on, of the
// output's sizes, as in products; input 1 is not read.
//
// Sums of int8 and uint8 are those of the numbers (q − zero point) · scale, rounded to float32, and are float64. Input
// 1 is then the scale, float32, and the last input the zero point, of the tensor's type, or absent: one number, or {1,
// C, 1, …}.
struct PoolingParameters {
    bool is_maximum;
    bool from_infinity;                   // a maximum is −∞ if no element is more
    std::int64_t power;                   // sums of |x|^power; 0: of x
    std::vector<std::int64_t> taps;       // one for each spatial dimension
    std::vector<std::int64_t> strides;    // …
    std::vector<std::int64_t> dilations;  // …
    std::vector<std::int64_t> padding;    // … before the first element
    std::vector<InstructionSpec> epilogue;
};

std::unique_ptr<Step> make_step(const StepTensors& tensors, const PoolingParameters& parameters);

}  // namespace dmlgraph::cpu
