// How much memory the system lets this process use on an adapter.
#pragma once

#include <cstdint>
#include <optional>

#include "directml/adapter.h"

namespace dmlgraph {

struct MemoryBudget {
    std::uint64_t bytes;       // what the process may use of the adapter's memory
    std::uint64_t used_bytes;  // what it uses now
};

// The budget of the memory that is fastest for the adapter; changes with what other processes do. Nothing if the
// system does not tell.
std::optional<MemoryBudget> query_memory_budget(const Adapter& adapter);

}  // namespace dmlgraph
