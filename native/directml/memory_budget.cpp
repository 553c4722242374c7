#include "directml/memory_budget.h"

namespace dmlgraph {

using namespace abi;

std::optional<MemoryBudget> query_memory_budget(const Adapter& adapter) {
    constexpr auto state = DXCoreAdapterState::AdapterMemoryBudget;
    if (!adapter.handle || !adapter.handle->IsQueryStateSupported(state)) {
        return std::nullopt;
    }
    constexpr DXCoreAdapterMemoryBudgetNodeSegmentGroup group{0, DXCoreSegmentGroup::Local};
    DXCoreAdapterMemoryBudget budget{};
    if (failed(adapter.handle->QueryState(state, sizeof group, &group, sizeof budget, &budget))) {
        return std::nullopt;
    }
    return MemoryBudget{budget.budget, budget.currentUsage};
}

}  // namespace dmlgraph
