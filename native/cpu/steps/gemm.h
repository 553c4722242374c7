// activation(alpha · A · B + beta · C) of matrices of any strides, with batches.
#pragma once

#include <memory>
#include <vector>

#include "cpu/plan/plan.h"
#include "cpu/runtime/step.h"

namespace dmlgraph::cpu {

// Inputs: A and B, float32 or float16, and the tensors that the epilogue reads, of the output's sizes.
struct GemmParameters {
    bool transposes_a;
    bool transposes_b;
    std::vector<InstructionSpec> epilogue;
};

std::unique_ptr<Step> make_step(const StepTensors& tensors, const GemmParameters& parameters);

}  // namespace dmlgraph::cpu
