// The parameters of native steps as Python's objects: dmlgraph._native.cpu_steps.
#pragma once

#include <utility>

#include "cpu/steps/native_step.h"

namespace dmlgraph::cpu {

// The base of all; the instructions of those that take some are added later.
struct BoundStep {
    StepParameters parameters;
};

template <class Parameters>
struct BoundStepOf final : BoundStep {
    explicit BoundStepOf(Parameters given) : BoundStep{std::move(given)} {}
};

}  // namespace dmlgraph::cpu
