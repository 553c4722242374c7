// The first elements along an axis in ascending or descending order, and their indices.
#pragma once

#include <cstdint>
#include <memory>

#include "cpu/runtime/step.h"

namespace dmlgraph::cpu {

// Of tensors of any strides; the outputs have `count` elements along the axis, indices in uint32 or uint64. Equal
// elements are in the order of their indices. NaN comes after all numbers, or, in descending order, before them.
struct TopParameters {
    std::int64_t axis;
    std::int64_t count;
    bool descending;
};

std::unique_ptr<Step> make_step(const StepTensors& tensors, const TopParameters& parameters);

}  // namespace dmlgraph::cpu
