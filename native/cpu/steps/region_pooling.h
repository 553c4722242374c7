// The greatest element of each cell of each region: ROI_POOLING.
#pragma once

#include <memory>

#include "cpu/runtime/step.h"

namespace dmlgraph::cpu {

struct RegionPoolingParameters {
    double scale;  // of the regions
    double least;  // what a maximum starts from
};

// Packed tensors in float32: images {N, C, H, W}, regions {…, R, 5} of a batch and corners, the output {R, C, height,
// width}.
std::unique_ptr<Step> make_step(const StepTensors& tensors, const RegionPoolingParameters& parameters);

}  // namespace dmlgraph::cpu
