// The gradients of pooling: what each window gives is added to elements of the tensor.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/plan/plan.h"
#include "cpu/runtime/step.h"

namespace dmlgraph::cpu {

// Of maxima, inputs: the tensor {batch…, spatial…}, and a gradient {batch…, counts…}, which is added at the first
// maximum of each window; a window without elements adds nothing. Of means, input: the share of every element of each
// window {batch…, counts…}, which is added at all of them. Output: the sums {batch…, spatial…}. All are packed, float32
// or float16.
//
// An element's terms are added in the row-major order of their windows, and every sum is rounded to the type.
struct PoolingGradientParameters {
    bool is_maximum;
    std::vector<std::int64_t> taps;       // one for each spatial dimension
    std::vector<std::int64_t> strides;    // …
    std::vector<std::int64_t> dilations;  // …
    std::vector<std::int64_t> padding;    // … before the first element
};

std::unique_ptr<Step> make_step(const StepTensors& tensors, const PoolingGradientParameters& parameters);

}  // namespace dmlgraph::cpu
