// The gradient of resampling: along some dimensions, each element is a weighted sum of any number of elements.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/plan/plan.h"
#include "cpu/runtime/step.h"

namespace dmlgraph::cpu {

// Along each of the axes, one after the other, a result is Σ of weight · element over its terms, in float32. Input and
// output: float32 or float16, of the same rank. The epilogue converts the results; operand 0 is them.
struct ResamplingGradientParameters {
    std::vector<std::int64_t> axes;     // ascending
    std::vector<std::int64_t> counts;   // axis by axis: the terms of each result
    std::vector<std::int64_t> indices;  // axis by axis, result by result: the element of each term
    std::vector<float> weights;         // …
    std::vector<InstructionSpec> epilogue;
};

std::unique_ptr<Step> make_step(const StepTensors& tensors, const ResamplingGradientParameters& parameters);

}  // namespace dmlgraph::cpu
