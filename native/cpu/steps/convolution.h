// Convolutions in up to three dimensions, as products of the filters and the windows.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/plan/plan.h"
#include "cpu/runtime/step.h"

namespace dmlgraph::cpu {

// Inputs: the tensor {N, C, …} and the filters {outputs, C / groups, taps…}, backward {C, outputs / groups, taps…}, and
// others, see steps/product_inputs.h. The tensor's zero point is one for all, the filters' too, or one for each output.
struct ConvolutionParameters {
    std::int64_t groups;
    std::vector<std::int64_t> strides;    // one for each spatial dimension
    std::vector<std::int64_t> dilations;  // …
    std::vector<std::int64_t> padding;    // … before the first element
    bool mirrored;                        // whether the filters are read backwards
    bool backward;                        // whether it is the transposed convolution
    std::vector<InstructionSpec> epilogue;
};

std::unique_ptr<Step> make_step(const StepTensors& tensors, const ConvolutionParameters& parameters);

}  // namespace dmlgraph::cpu
