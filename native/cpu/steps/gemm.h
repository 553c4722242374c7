// activation(alpha · A · B + beta · C) of matrices of any strides, with batches.
#pragma once

#include <memory>
#include <vector>

#include "cpu/plan/plan.h"
#include "cpu/runtime/step.h"

namespace dmlgraph::cpu {

// Inputs: A and B, and others, see steps/product_inputs.h. A zero point is one for all, or one for each row of A or
// column of B.
struct GemmParameters {
    bool transposes_a;
    bool transposes_b;
    std::vector<InstructionSpec> epilogue;
};

std::unique_ptr<Step> make_step(const StepTensors& tensors, const GemmParameters& parameters);

}  // namespace dmlgraph::cpu
