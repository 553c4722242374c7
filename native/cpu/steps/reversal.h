// Sequences along an axis of which the first elements are reversed.
#pragma once

#include <cstdint>
#include <memory>

#include "cpu/runtime/step.h"

namespace dmlgraph::cpu {

// Packed tensors of {outer, size, inner} elements, and lengths {outer, inner} in uint32 or uint64. An element that
// would come from behind the last one is the last one.
struct ReversalParameters {
    std::int64_t outer;
    std::int64_t size;
    std::int64_t inner;
};

std::unique_ptr<Step> make_step(const StepTensors& tensors, const ReversalParameters& parameters);

}  // namespace dmlgraph::cpu
