// Products of matrices of 8-bit integers.
#pragma once

#include <memory>

#include "cpu/steps/gemm.h"

namespace dmlgraph::cpu {

std::unique_ptr<Step> make_integer_step(const StepTensors& tensors, const GemmParameters& parameters);

}  // namespace dmlgraph::cpu
