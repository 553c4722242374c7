// Allocates temporary buffers in one arena, so that buffers that live at different times share memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/runtime/step.h"

namespace dmlgraph::cpu {

struct Lifetime {
    std::size_t bytes = 0;
    std::int32_t first = -1;  // steps, both included; -1: never used
    std::int32_t last = -1;
    std::size_t offset = 0;  // in the arena: the result

    void extend(std::int32_t step) {
        first = first < 0 ? step : first;
        last = step;
    }
};

// Sets the offsets and returns the arena's size. A buffer gets the memory of one that its first step reads last, if the
// step may overwrite it. `first_buffer` is the number of lifetimes[0].
std::size_t assign_offsets(std::vector<Lifetime>& lifetimes, const std::vector<std::unique_ptr<Step>>& steps,
                           BufferId first_buffer);

}  // namespace dmlgraph::cpu
