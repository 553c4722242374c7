#include "software_adapter/enhanced_barriers.h"

#include <string>

#include "software_adapter/resource_states.h"

namespace dmlgraph::software {
namespace {

constexpr uint32_t by_dispatches = D3D12_BARRIER_SYNC_ALL | D3D12_BARRIER_SYNC_COMPUTE_SHADING;
constexpr uint32_t by_copies = D3D12_BARRIER_SYNC_ALL | D3D12_BARRIER_SYNC_COPY;

// How compute lists access a buffer: the state that allows it, and the work that does it.
struct AccessInfo {
    D3D12_BARRIER_ACCESS access;
    D3D12_RESOURCE_STATES state;
    uint32_t work;  // D3D12_BARRIER_SYNC
};
constexpr AccessInfo accesses[] = {
    {D3D12_BARRIER_ACCESS_COMMON, D3D12_RESOURCE_STATE_COMMON, by_dispatches | by_copies},
    {D3D12_BARRIER_ACCESS_UNORDERED_ACCESS, D3D12_RESOURCE_STATE_UNORDERED_ACCESS, by_dispatches},
    {D3D12_BARRIER_ACCESS_SHADER_RESOURCE, D3D12_RESOURCE_STATE_NON_PIXEL_SHADER_RESOURCE, by_dispatches},
    {D3D12_BARRIER_ACCESS_COPY_DEST, D3D12_RESOURCE_STATE_COPY_DEST, by_copies},
    {D3D12_BARRIER_ACCESS_COPY_SOURCE, D3D12_RESOURCE_STATE_COPY_SOURCE, by_copies},
};

// The state for an access by this work.
D3D12_RESOURCE_STATES state_for(D3D12_BARRIER_ACCESS access, D3D12_BARRIER_SYNC work) {
    for (const AccessInfo& each : accesses) {
        if (each.access == access) {
            if (work == D3D12_BARRIER_SYNC_NONE || (work & ~each.work)) {
                throw Refusal("a barrier's work " + std::to_string(work) + " does not access buffers by " +
                              std::to_string(access));
            }
            return each.state;
        }
    }
    throw Refusal("lists that compute do not access buffers by " + std::to_string(access));
}

D3D12_RESOURCE_BARRIER as_legacy(const D3D12_BUFFER_BARRIER& barrier) {
    const auto before = state_for(barrier.AccessBefore, barrier.SyncBefore);
    const auto after = state_for(barrier.AccessAfter, barrier.SyncAfter);
    D3D12_RESOURCE_BARRIER legacy{};
    if (before == after) {
        legacy.Type = D3D12_RESOURCE_BARRIER_TYPE_UAV;
        legacy.UAV = {barrier.pResource};
    } else {
        legacy.Type = D3D12_RESOURCE_BARRIER_TYPE_TRANSITION;
        legacy.Transition = {barrier.pResource, all_subresources, before, after};
    }
    return legacy;
}

}  // namespace

std::vector<D3D12_RESOURCE_BARRIER> as_legacy(const D3D12_BARRIER_GROUP& group) {
    std::vector<D3D12_RESOURCE_BARRIER> found;
    for (uint32_t i = 0; i < group.NumBarriers; ++i) {
        if (group.Type == D3D12_BARRIER_TYPE_GLOBAL) {
            const D3D12_GLOBAL_BARRIER& each = group.pGlobalBarriers[i];
            if (each.AccessBefore != each.AccessAfter) {
                throw Refusal("a global barrier changes the access of all buffers; each needs its own");
            }
            found.push_back(as_legacy(
                {each.SyncBefore, each.SyncAfter, each.AccessBefore, each.AccessAfter, nullptr, 0, UINT64_MAX}));
        } else if (group.Type == D3D12_BARRIER_TYPE_BUFFER) {
            const D3D12_BUFFER_BARRIER& each = group.pBufferBarriers[i];
            const auto* const buffer = static_cast<const Resource*>(each.pResource);
            if (!buffer || each.Offset != 0 || each.Size < buffer->size()) {
                throw Refusal("a buffer's barrier is not for all of a buffer");
            }
            found.push_back(as_legacy(each));
        } else {
            throw Refusal("a barrier of a texture, and there are no textures");
        }
    }
    return found;
}

}  // namespace dmlgraph::software
