// Running sums and products along an axis.
#pragma once

#include <cstdint>
#include <memory>

#include "cpu/runtime/step.h"

namespace dmlgraph::cpu {

struct ScanParameters {
    std::int64_t axis;
    bool from_end;
    bool is_exclusive;  // whether each total leaves out its own element
    bool is_product;
};

std::unique_ptr<Step> make_step(const StepTensors& tensors, const ScanParameters& parameters);

}  // namespace dmlgraph::cpu
