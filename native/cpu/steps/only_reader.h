// Whether a step can let go of an input that it has packed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "cpu/plan/plan.h"

namespace dmlgraph::cpu {

// Whether a buffer is the input at a port and no other one, and its bits stay when it is packed as float32.
inline bool reads_only_at(const std::vector<View>& inputs, std::size_t port, BufferId buffer) {
    const auto is_it = [&](const View& view) { return view.buffer == buffer; };
    return is_it(inputs[port]) && inputs[port].type != DataType::float16 && std::ranges::count_if(inputs, is_it) == 1;
}

}  // namespace dmlgraph::cpu
