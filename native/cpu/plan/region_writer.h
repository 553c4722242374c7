// From a group of nodes to a region.
#pragma once

#include <cstdint>
#include <span>

#include "cpu/plan/planning.h"
#include "cpu/region/region.h"

namespace dmlgraph::cpu {

// Computes the nodes depth first from the stored values, so that few values live at the same time. `domain` is that of
// nodes that run row by row; else null.
Region write_region(Plan& plan, std::span<const std::int32_t> nodes, const RowDomain* domain);

}  // namespace dmlgraph::cpu
