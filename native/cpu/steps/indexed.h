// Elements and slices read from, or written to, the positions in a tensor of indices.
//
// Tensors are packed. An index that reads is clamped to the existing elements; one that writes beyond them writes
// nothing. Negative indices of signed types count from the end.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/runtime/step.h"

namespace dmlgraph::cpu {

// output[b, k, slice] = input[b, indices[b, k, 0], indices[b, k, 1], …, slice].
struct GatherParameters {
    std::int64_t batches;
    std::int64_t tuples;              // of indices in each batch
    std::int64_t slice;               // elements
    bool is_shared;                   // whether all batches have the same indices
    std::vector<std::int64_t> sizes;  // the indexed sizes of the input: as many as a tuple has members
};

// output[o, i, n] = input[o, indices[o, i, n], n].
struct GatherElementsParameters {
    std::int64_t outer;  // elements before the axis
    std::int64_t inner;  // … and after it
    std::int64_t size;   // of the axis in the input
    std::int64_t taken;  // … and in the output
};

// The input, except output[indices[k, 0], indices[k, 1], …, slice] = updates[k, slice]; the last update of an element
// stays.
struct ScatterParameters {
    std::int64_t tuples;              // of indices
    std::int64_t slice;               // elements
    std::vector<std::int64_t> sizes;  // the indexed sizes of the input
};

// The input, except output[o, indices[o, i, n], n] = updates[o, i, n]; the last update of an element stays.
struct ScatterElementsParameters {
    std::int64_t outer;  // elements before the axis
    std::int64_t inner;  // … and after it
    std::int64_t size;   // of the axis in the input
    std::int64_t given;  // … and in the updates
};

// Inputs: the tensor, the indices, and the updates of a scatter.
std::unique_ptr<Step> make_step(const StepTensors& tensors, const GatherParameters& parameters);
std::unique_ptr<Step> make_step(const StepTensors& tensors, const GatherElementsParameters& parameters);
std::unique_ptr<Step> make_step(const StepTensors& tensors, const ScatterParameters& parameters);
std::unique_ptr<Step> make_step(const StepTensors& tensors, const ScatterElementsParameters& parameters);

}  // namespace dmlgraph::cpu
