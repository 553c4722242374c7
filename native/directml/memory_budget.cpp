#include "directml/memory_budget.h"

namespace dmlgraph {

namespace {

using namespace abi;

std::optional<MemoryBudget> query(IDXCoreAdapter& adapter) {
    constexpr auto state = DXCoreAdapterState::AdapterMemoryBudget;
    constexpr DXCoreAdapterMemoryBudgetNodeSegmentGroup group{0, DXCoreSegmentGroup::Local};
    DXCoreAdapterMemoryBudget budget{};
    if (!adapter.IsQueryStateSupported(state) ||
        failed(adapter.QueryState(state, sizeof group, &group, sizeof budget, &budget))) {
        return std::nullopt;
    }
    return MemoryBudget{budget.budget, budget.currentUsage};
}

std::optional<MemoryBudget> query(const ComPtr<IDXGIAdapter1>& adapter) {
    const auto newer = adapter.as<IDXGIAdapter3>();
    DXGI_QUERY_VIDEO_MEMORY_INFO info{};
    if (!newer || failed(newer->QueryVideoMemoryInfo(0, DXGI_MEMORY_SEGMENT_GROUP_LOCAL, &info))) {
        return std::nullopt;
    }
    return MemoryBudget{info.Budget, info.CurrentUsage};
}

}  // namespace

std::optional<MemoryBudget> query_memory_budget(const Adapter& adapter) {
    return adapter.handle ? query(*adapter.handle) : query(adapter.dxgi);
}

}  // namespace dmlgraph
