// The images that patches of a sliding window add up to.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/runtime/step.h"

namespace dmlgraph::cpu {

// Per spatial dimension of the image, except `planes`, which is batches · channels.
struct FoldParameters {
    std::int64_t planes;
    std::vector<std::int64_t> sizes;
    std::vector<std::int64_t> blocks;  // positions of the window
    std::vector<std::int64_t> window;
    std::vector<std::int64_t> strides;
    std::vector<std::int64_t> dilations;
    std::vector<std::int64_t> padding;  // before the image
};

// Packed tensors of one type, or the output is float64. Floats are added in float64, element by element of the window,
// and rounded once; integers wrap.
std::unique_ptr<Step> make_step(const StepTensors& tensors, const FoldParameters& parameters);

}  // namespace dmlgraph::cpu
