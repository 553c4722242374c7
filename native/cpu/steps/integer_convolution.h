// Convolutions of 8-bit integers, forward ones.
#pragma once

#include <memory>

#include "cpu/steps/convolution.h"

namespace dmlgraph::cpu {

std::unique_ptr<Step> make_integer_step(const StepTensors& tensors, const ConvolutionParameters& parameters);

}  // namespace dmlgraph::cpu
