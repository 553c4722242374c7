// Fences.
#pragma once

#include "software_adapter/object.h"

namespace dmlgraph::software {

class Fence final : public DeviceChild<ID3D12Fence, ID3D12Pageable> {
public:
    Fence(const DeviceOwner& owner, uint64_t value) : DeviceChild(owner), value_(value) {}
    ~Fence() override { timeline().forget(value_); }

    // UINT64_MAX once the device is lost.
    uint64_t GetCompletedValue() override { return device_state().removed() ? UINT64_MAX : value_.load(); }
    // With a null event, returns when the value is reached. Otherwise writes 1 to the event, an eventfd, then.
    HRESULT SetEventOnCompletion(uint64_t value, HANDLE event) override;
    HRESULT Signal(uint64_t value) override;

    FenceValue& value() { return value_; }

private:
    Timeline& timeline() const { return device_state().timeline; }

    FenceValue value_;
};

}  // namespace dmlgraph::software
