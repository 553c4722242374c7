// Attention of many heads in all forms of DirectML's MULTIHEAD_ATTENTION operators.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/plan/plan.h"
#include "cpu/runtime/step.h"

namespace dmlgraph::cpu {

// Inputs in any order; a port is −1 where there is no input. float32 or float16, the mask and the lengths int32.
// Tensors may have more leading dimensions of size 1 than dmlgraph/operators/attention.py says. Outputs: the results,
// then all keys and all values, of which any may be absent.
struct AttentionParameters {
    // Where something comes from: the port, and the part of a stack or −1.
    std::vector<std::int64_t> query;
    std::vector<std::int64_t> key;
    std::vector<std::int64_t> value;
    std::int64_t bias;
    std::int64_t mask;
    std::int64_t positions;  // the bias by position
    std::int64_t past_key;
    std::int64_t past_value;
    std::int64_t past_lengths;
    std::int64_t query_heads;
    std::int64_t key_heads;
    std::int64_t mask_type;      // DML_MULTIHEAD_ATTENTION_MASK_TYPE
    std::vector<float> factors;  // the scale, and the filter value of the mask
};

std::unique_ptr<Step> make_step(const StepTensors& tensors, const AttentionParameters& parameters);

}  // namespace dmlgraph::cpu
