// Instructions that become part of others.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "cpu/region/region.h"

namespace dmlgraph::cpu {

// Changes an instruction; gives what it takes instead, or nothing if that stays.
using Change = std::function<std::optional<std::vector<Reference>>(std::size_t index, RegionInstruction& instruction)>;

// Writes the instructions again, without some that nothing takes any more.
void rewrite(Region& region, const std::vector<bool>& left_out, const Change& change);

}  // namespace dmlgraph::cpu
