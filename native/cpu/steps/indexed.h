// Elements and slices read from, or written to, positions that a tensor of indices names.
//
// Tensors are packed. An index is clamped to the elements there are where it reads, and writes nothing beyond them;
// negative ones of signed types count from the end.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/runtime/step.h"

namespace dmlgraph::cpu {

// output[b, k, slice] = input[b, indices[b, k, 0], indices[b, k, 1], …, slice].
struct GatherParameters {
    std::int64_t batches;
    std::int64_t tuples;  // of indices in each batch
    std::int64_t slice;   // elements
    bool is_shared;       // whether all batches have the same indices
    std::vector<std::int64_t> sizes;  // of the input, that are indexed: as many as a tuple has members
};

// output[o, i, n] = input[o, indices[o, i, n], n].
struct GatherElementsParameters {
    std::int64_t outer;  // elements before the axis
    std::int64_t inner;  // … and behind it
    std::int64_t size;   // along it in the input
    std::int64_t taken;  // along it in the output
};

// The input, but output[indices[k, 0], indices[k, 1], …, slice] = updates[k, slice]; the last update of an element stays.
struct ScatterParameters {
    std::int64_t tuples;  // of indices
    std::int64_t slice;   // elements
    std::vector<std::int64_t> sizes;  // of the input, that are indexed
};

// The input, but output[o, indices[o, i, n], n] = updates[o, i, n]; the last update of an element stays.
struct ScatterElementsParameters {
    std::int64_t outer;  // elements before the axis
    std::int64_t inner;  // … and behind it
    std::int64_t size;   // along it in the input
    std::int64_t given;  // along it in the updates
};

// Inputs: the tensor, the indices, and the updates of a scatter.
std::unique_ptr<Step> make_step(const StepTensors& tensors, const GatherParameters& parameters);
std::unique_ptr<Step> make_step(const StepTensors& tensors, const GatherElementsParameters& parameters);
std::unique_ptr<Step> make_step(const StepTensors& tensors, const ScatterParameters& parameters);
std::unique_ptr<Step> make_step(const StepTensors& tensors, const ScatterElementsParameters& parameters);

}  // namespace dmlgraph::cpu
