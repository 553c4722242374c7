// Enhanced barriers, as the legacy ones with the same effect: for a buffer an access is what a state is, and both
// follow the rules of resource_states.h.
#pragma once

#include <vector>

#include "software_adapter/resource.h"

namespace dmlgraph::software {

// Throws Refusal if a barrier of the group is wrong by itself.
std::vector<D3D12_RESOURCE_BARRIER> as_legacy(const D3D12_BARRIER_GROUP& group);

}  // namespace dmlgraph::software
