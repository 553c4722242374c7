// The barriers of one point of a list, legacy or enhanced. Each resource has one at most.
#pragma once

#include <cstdint>

#include "graph.h"
#include "ids.h"

namespace @{namespace} {

inline constexpr D3D12_RESOURCE_STATES Dispatched = D3D12_RESOURCE_STATE_UNORDERED_ACCESS;
inline constexpr D3D12_RESOURCE_STATES CopySource = D3D12_RESOURCE_STATE_COPY_SOURCE;
inline constexpr D3D12_RESOURCE_STATES CopyTarget = D3D12_RESOURCE_STATE_COPY_DEST;

#ifdef __ID3D12GraphicsCommandList7_INTERFACE_DEFINED__  // older headers do not have it

// The list as one that records enhanced barriers; null if it cannot.
inline ID3D12GraphicsCommandList7* Enhanced(ID3D12GraphicsCommandList* list) noexcept {
    void* found = nullptr;
    if (FAILED(list->QueryInterface(EnhancedListId, &found))) {
        return nullptr;
    }
    auto* const enhanced = static_cast<ID3D12GraphicsCommandList7*>(found);
    enhanced->Release();  // the caller keeps the list
    return enhanced;
}

inline bool CanRecord(ID3D12GraphicsCommandList* list, Barriers kind) noexcept {
    return kind == Barriers::Legacy || Enhanced(list);
}

inline D3D12_BARRIER_SYNC SyncOf(D3D12_RESOURCE_STATES state) noexcept {
    // What DirectML records may be of any kind: all of it is waited for, as with a legacy UAV barrier.
    return state == Dispatched ? D3D12_BARRIER_SYNC_ALL : D3D12_BARRIER_SYNC_COPY;
}

inline D3D12_BARRIER_ACCESS AccessOf(D3D12_RESOURCE_STATES state) noexcept {
    return state == Dispatched   ? D3D12_BARRIER_ACCESS_UNORDERED_ACCESS
           : state == CopySource ? D3D12_BARRIER_ACCESS_COPY_SOURCE
                                 : D3D12_BARRIER_ACCESS_COPY_DEST;
}

inline void RecordEnhanced(ID3D12GraphicsCommandList* list, UINT count, const D3D12_RESOURCE_BARRIER* barriers) noexcept {
    D3D12_BUFFER_BARRIER all[StateCount + 1] = {};
    for (UINT i = 0; i < count; ++i) {
        const D3D12_RESOURCE_TRANSITION_BARRIER& each = barriers[i].Transition;
        all[i] = {SyncOf(each.StateBefore), SyncOf(each.StateAfter), AccessOf(each.StateBefore), AccessOf(each.StateAfter),
                  each.pResource, 0, UINT64_MAX};
    }
    D3D12_BARRIER_GROUP group = {};
    group.Type = D3D12_BARRIER_TYPE_BUFFER;
    group.NumBarriers = count;
    group.pBufferBarriers = all;
    Enhanced(list)->Barrier(1, &group);
}

// Between dispatches: of all buffers.
inline void RecordEnhanced(ID3D12GraphicsCommandList* list) noexcept {
    const D3D12_GLOBAL_BARRIER barrier = {SyncOf(Dispatched), SyncOf(Dispatched), AccessOf(Dispatched),
                                          AccessOf(Dispatched)};
    D3D12_BARRIER_GROUP group = {};
    group.Type = D3D12_BARRIER_TYPE_GLOBAL;
    group.NumBarriers = 1;
    group.pGlobalBarriers = &barrier;
    Enhanced(list)->Barrier(1, &group);
}

#else

inline bool CanRecord(ID3D12GraphicsCommandList*, Barriers kind) noexcept {
    return kind == Barriers::Legacy;
}
inline void RecordEnhanced(ID3D12GraphicsCommandList*, UINT, const D3D12_RESOURCE_BARRIER*) noexcept {}
inline void RecordEnhanced(ID3D12GraphicsCommandList*) noexcept {}

#endif

// From one state to another.
class Transitions {
public:
    void Add(const D3D12_RESOURCE_TRANSITION_BARRIER& transition) noexcept {
        for (UINT i = 0; i < count_; ++i) {
            if (all_[i].Transition.pResource == transition.pResource) {
                return;
            }
        }
        all_[count_].Type = D3D12_RESOURCE_BARRIER_TYPE_TRANSITION;
        all_[count_++].Transition = transition;
    }
    void Record(ID3D12GraphicsCommandList* list, Barriers kind) const noexcept {
        if (kind == Barriers::Legacy) {
            list->ResourceBarrier(count_, all_);
        } else {
            RecordEnhanced(list, count_, all_);
        }
    }

private:
    D3D12_RESOURCE_BARRIER all_[StateCount + 1] = {};
    UINT count_ = 0;
};

// What follows may read what dispatches wrote, and write where they read.
inline void RecordUnorderedAccess(ID3D12GraphicsCommandList* list, Barriers kind) noexcept {
    if (kind == Barriers::Enhanced) {
        RecordEnhanced(list);
        return;
    }
    D3D12_RESOURCE_BARRIER barrier = {};
    barrier.Type = D3D12_RESOURCE_BARRIER_TYPE_UAV;
    list->ResourceBarrier(1, &barrier);
}

}  // namespace @{namespace}
