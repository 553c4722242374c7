// The native steps that are no regions: the list that a new one is added to.
//
// A step has a struct of parameters and a function that makes it of these; bind/cpu_graph.cpp reads the parameters by
// name from what dmlgraph/devices/cpu gives. Tensors are packed: what a caller gives otherwise is copied before.
#pragma once

#include <memory>
#include <variant>

#include "cpu/runtime/step.h"
#include "cpu/steps/indexed.h"
#include "cpu/steps/scan.h"

namespace dmlgraph::cpu {

using StepParameters = std::variant<ScanParameters, GatherParameters, GatherElementsParameters, ScatterParameters,
                                    ScatterElementsParameters>;

// Throws std::invalid_argument for tensors of types that the step does not take.
std::unique_ptr<Step> make_native_step(const StepTensors& tensors, const StepParameters& parameters);

}  // namespace dmlgraph::cpu
