// A product with a matrix of weights of 4 or 8 bits, whose blocks share a scale and a zero point.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/plan/plan.h"
#include "cpu/runtime/step.h"

namespace dmlgraph::cpu {

struct BlockGemmParameters {
    bool transposes_a;
    bool transposes_b;
    bool has_four_bits;  // also of zero points
    bool is_signed;
    std::vector<std::int64_t> sizes;  // rows and columns of the weights
    // Of scales and of zero points: the rows and columns of a block, and the steps from block to block along both.
    std::vector<std::int64_t> scale;
    std::vector<std::int64_t> zero_point;
    bool has_integers;  // whether A is integers of 8 bits, with a scale for each block of the weights' depths
    std::vector<InstructionSpec> epilogue;
};

// Inputs, packed: one matrix A, the weights, the tensors of the epilogue, and last A's scales, the weights' scales,
// both in float32, and the zero points. Without integers A's scales are absent. With them A is not transposed, and the
// weights have 4 bits and whole words of them in a block (see products/nibbles.h).
std::unique_ptr<Step> make_step(const StepTensors& tensors, const BlockGemmParameters& parameters);

}  // namespace dmlgraph::cpu
