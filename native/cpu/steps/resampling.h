// Tensors stretched or shrunk: along some dimensions, each element is a weighted mean of few elements.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/plan/plan.h"
#include "cpu/runtime/step.h"

namespace dmlgraph::cpu {

// Along each of the axes, one after the other, result o is x₀ + Σ over t ≥ 1 of weight · (x_t − x₀), in float32, where
// x_t is the element at the index of tap t. Input and output: float32, float16, int8 or uint8, of the same rank. The
// epilogue converts the results; operand 0 is them.
struct ResamplingParameters {
    std::vector<std::int64_t> axes;     // ascending
    std::vector<std::int64_t> taps;     // of each axis
    std::vector<std::int64_t> indices;  // axis by axis: {taps, results}
    std::vector<float> weights;         // …
    std::vector<InstructionSpec> epilogue;
};

std::unique_ptr<Step> make_step(const StepTensors& tensors, const ResamplingParameters& parameters);

}  // namespace dmlgraph::cpu
