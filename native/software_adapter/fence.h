// Fences.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "software_adapter/object.h"

namespace dmlgraph::software {

// The work that has ended once a fence has a value. Only with validation; else there is none.
class Landings {
public:
    void add(uint64_t value, const Flights& flights);
    // The work that ends with this value.
    Flights until(uint64_t value) const;
    // The program knows that the fence has the value.
    void observe(uint64_t value);

private:
    mutable std::mutex mutex_;
    std::vector<std::pair<uint64_t, Flights>> flights_;
};

class Fence final : public DeviceChild<ID3D12Fence, ID3D12Pageable> {
public:
    Fence(const DeviceOwner& owner, uint64_t value) : DeviceChild(owner), value_(value) {}
    ~Fence() override { timeline().forget(value_); }

    // UINT64_MAX once the device is lost.
    uint64_t GetCompletedValue() override;
    // With a null event, returns when the value is reached. Otherwise writes 1 to the event, an eventfd, then.
    HRESULT SetEventOnCompletion(uint64_t value, HANDLE event) override;
    HRESULT Signal(uint64_t value) override;

    FenceValue& value() { return value_; }
    Landings& landings() { return *landings_; }

private:
    Timeline& timeline() const { return device_state().timeline; }

    FenceValue value_;
    const std::shared_ptr<Landings> landings_ = std::make_shared<Landings>();
};

}  // namespace dmlgraph::software
