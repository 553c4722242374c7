// The state that the objects of one device share: whether it is lost, its fences, and its memory addresses.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "abi/d3d12.h"
#include "software_adapter/progress.h"
#include "software_adapter/strictness.h"
#include "software_adapter/timeline.h"
#include "software_adapter/validation.h"

namespace dmlgraph::software {

using namespace abi;

class CachedMapping;

class DeviceState {
public:
    explicit DeviceState(std::size_t adapter)
        : adapter(adapter),
          strict(strictness(adapter)),
          validation(strict.validation ? std::make_unique<Validation>() : nullptr) {}

    const std::size_t adapter;  // the adapter's index
    const Strictness& strict;
    const std::unique_ptr<Validation> validation;  // null: what the debug layer checks is not checked

    // S_OK while the device works, else why it is lost.
    HRESULT removed_reason() const { return removed_reason_; }
    bool removed() const { return removed_reason_ != S_OK; }

    // Loses the device: its Create methods fail, its queues do nothing, its fences count as reached.
    // Only the first call has an effect; it logs `why`.
    void remove(HRESULT reason, const std::string& why);

    // Logs a message, and keeps it for ID3D12InfoQueue if the device validates.
    void report(const std::string& message);
    std::vector<std::string> messages() const;
    void clear_messages();

    // Counts a call that may fail: what it must return at once, S_OK if it is to go on. See sw_fail_call.
    HRESULT fault();

    // The bytes from `address` to the end of the heap or committed resource that contains it, 0 if none does.
    // GPU addresses are addresses of this process.
    uint64_t bytes_from(D3D12_GPU_VIRTUAL_ADDRESS address) const;
    // Takes device memory from the budget; returns whether that much is left.
    bool reserve(uint64_t size);
    void release(uint64_t size);
    void add_memory(const char* data, uint64_t size);
    void forget_memory(const char* data);

    // What the processor has mapped, to be poisoned when the adapter works on it.
    void add_mapping(CachedMapping* mapping);
    void forget_mapping(CachedMapping* mapping);
    void spoil_mappings(const Commands& commands);

    Timeline timeline;
    Progress progress;

private:
    std::atomic<HRESULT> removed_reason_{S_OK};
    mutable std::mutex mutex_;
    std::map<uint64_t, uint64_t> memory_;  // address to size
    std::vector<std::string> messages_;
    uint64_t reserved_ = 0;  // bytes
    std::set<CachedMapping*> mappings_;
};

// A child's reference to its device, with the device's state.
struct DeviceOwner {
    ComPtr<ID3D12Device5> device;
    DeviceState* state;
};

}  // namespace dmlgraph::software
