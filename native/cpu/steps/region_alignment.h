// Regions of images, all resized to the same size by sampling: ROI_ALIGN.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/runtime/step.h"

namespace dmlgraph::cpu {

struct RegionAlignmentParameters {
    bool is_maximum;  // of the samples; else their average
    bool is_nearest;
    bool aligns_to_corners;
    std::int64_t least_samples;  // for each output element
    std::int64_t most_samples;
    std::vector<double> scales;   // of x and y
    std::vector<double> offsets;  // of pixels in the input, and in the output
    std::vector<double> bounds;   // the value of a sample outside; what a maximum starts from
};

// Packed tensors: images {N, C, H, W} in float32, regions {…, R, 4} in float32, batches {…, R} in uint32 or uint64, and
// the output {R, C, height, width} in float32. Sums are float32.
std::unique_ptr<Step> make_step(const StepTensors& tensors, const RegionAlignmentParameters& parameters);

}  // namespace dmlgraph::cpu
