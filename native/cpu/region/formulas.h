// Cheap instructions become formulas.
#pragma once

#include "cpu/region/region.h"

namespace dmlgraph::cpu {

// Joins instructions of which a single one's result is taken outside to one that computes them all in registers
// (kernels/formula.h). Results stay what they are, bit for bit (of NaN: NaN).
void join_formulas(Region& region);

}  // namespace dmlgraph::cpu
