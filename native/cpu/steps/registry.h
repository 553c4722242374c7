// Native steps that are not element-wise regions, by name: the table that a family of steps is added to.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "cpu/runtime/step.h"

namespace dmlgraph::cpu {

// What a step is made of: the views of the node's tensors in binding order, those that are absent or that nobody reads
// without a buffer, and the numbers its Python side gives.
struct StepDesc {
    std::vector<View> inputs;
    std::vector<View> outputs;
    std::vector<std::int64_t> integers;
    std::vector<double> reals;
};

struct StepKind {
    std::string_view name;
    // Whether any strides will do. Else tensors that are described as packed are packed in memory, whatever array the
    // caller gives: they are copied where they are not.
    bool strided;
    std::unique_ptr<Step> (*make)(StepDesc desc);
};

// Null where there is none.
const StepKind* find_step_kind(std::string_view name);

}  // namespace dmlgraph::cpu
