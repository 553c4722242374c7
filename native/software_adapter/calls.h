// Numbers the calls of a function on each adapter, from 1: some restrictions strike at the Nth call.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "software_adapter/strictness.h"

namespace dmlgraph::software {

class Calls {
public:
    // The number of this call.
    std::uint64_t next(std::size_t adapter) { return ++counts_[adapter]; }

private:
    // Never destroyed: threads may call while the process ends.
    std::vector<std::atomic<std::uint64_t>>& counts_ = *new std::vector<std::atomic<std::uint64_t>>(adapter_count());
};

}  // namespace dmlgraph::software
