// Elements and slices read from, or written to, places that a tensor of indices names.
//
// Tensors are packed. An index is clamped to the elements there are where it reads, and writes nothing beyond them;
// negative ones of signed types count from the end.
#pragma once

#include <memory>

#include "cpu/steps/registry.h"

namespace dmlgraph::cpu {

// output[b, k, slice] = input[b, indices[b, k, 0], indices[b, k, 1], …, slice].
// Integers: batches; tuples of indices in each; elements of a slice; whether all batches have the same indices; then the
// input's sizes that are indexed, as many as a tuple has members.
std::unique_ptr<Step> make_gather(StepDesc desc);

// output[o, i, n] = input[o, indices[o, i, n], n].
// Integers: elements before the axis; behind it; along it in the input; along it in the output.
std::unique_ptr<Step> make_gather_elements(StepDesc desc);

// The input, but output[indices[k, 0], indices[k, 1], …, slice] = updates[k, slice]; the last update of an element stays.
// Integers: tuples of indices; elements of a slice; then the sizes that are indexed.
std::unique_ptr<Step> make_scatter(StepDesc desc);

// The input, but output[o, indices[o, i, n], n] = updates[o, i, n]; the last update of an element stays.
// Integers: as for gather_elements, along the axis in the input and in the updates.
std::unique_ptr<Step> make_scatter_elements(StepDesc desc);

}  // namespace dmlgraph::cpu
