// Allocates temporary buffers in one arena, so that buffers that live at different times share memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/plan/plan.h"

namespace dmlgraph::cpu {

// Sets the offsets and returns the arena's size. A buffer gets the memory of one that its first step reads last, if the
// step may overwrite it. `first_buffer` is the number of lifetimes[0].
std::size_t assign_offsets(std::vector<Lifetime>& lifetimes, const std::vector<std::unique_ptr<Step>>& steps,
                           BufferId first_buffer);

}  // namespace dmlgraph::cpu
