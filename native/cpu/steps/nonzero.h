// The coordinates of the elements that are not zero.
#pragma once

#include <cstdint>
#include <memory>

#include "cpu/runtime/step.h"

namespace dmlgraph::cpu {

// Of a packed tensor, in row-major order, one in each of the output's {elements, members} rows: the last `members`
// dimensions, in uint32. The rows that are left are zero.
struct NonzeroParameters {
    std::int64_t members;
};

std::unique_ptr<Step> make_step(const StepTensors& tensors, const NonzeroParameters& parameters);

}  // namespace dmlgraph::cpu
