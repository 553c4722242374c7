// Chains of sums, products and bounds become one instruction each.
#pragma once

#include <functional>

#include "cpu/region/region.h"

namespace dmlgraph::cpu {

// Gives a load of a number that is the same for all elements.
using LoadNumber = std::function<Reference(float)>;

// Joins float32 instructions of which one alone takes another's result to AFFINE and the same with
// bounds: a pass over a block costs more than its arithmetic. Results stay what they are, bit for bit (of NaN: NaN).
void join_chains(Region& region, const LoadNumber& load_number);

}  // namespace dmlgraph::cpu
