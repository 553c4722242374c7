// 4-bit integers, of which two share a byte, the first in its lower half, as bytes of their own, and back.
#pragma once

#include <cstdint>
#include <memory>

#include "cpu/runtime/step.h"

namespace dmlgraph::cpu {

struct FourBitsParameters {
    bool spreads;  // to bytes; else from bytes, which are clamped to the range of 4 bits
    bool is_signed;
    std::int64_t count;  // of elements
};

std::unique_ptr<Step> make_step(const StepTensors& tensors, const FourBitsParameters& parameters);

}  // namespace dmlgraph::cpu
