#include "software_adapter/device_state.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "software_adapter/cached_mapping.h"
#include "software_adapter/counters.h"
#include "software_adapter/failing_call.h"
#include "software_adapter/log.h"

namespace dmlgraph::software {

void DeviceState::remove(HRESULT reason, const std::string& why) {
    HRESULT expected = S_OK;
    if (!removed_reason_.compare_exchange_strong(expected, reason)) {
        return;
    }
    char code[16];
    std::snprintf(code, sizeof code, "0x%08x", static_cast<uint32_t>(reason));
    report(std::string("device removed (") + code + "): " + why);
    timeline.finish();
}

void DeviceState::report(const std::string& message) {
    log(message);
    if (validation) {
        const std::lock_guard lock(mutex_);
        messages_.push_back(message);
    }
}

std::vector<std::string> DeviceState::messages() const {
    const std::lock_guard lock(mutex_);
    return messages_;
}

void DeviceState::clear_messages() {
    const std::lock_guard lock(mutex_);
    messages_.clear();
}

HRESULT DeviceState::fault() {
    switch (next_fault()) {
        case Fault::none: return S_OK;
        case Fault::out_of_memory: return E_OUTOFMEMORY;
        case Fault::removal:
            remove(DXGI_ERROR_DEVICE_HUNG, "sw_fail_call asks for it");
            return DXGI_ERROR_DEVICE_REMOVED;
    }
    return S_OK;
}

uint64_t DeviceState::bytes_from(D3D12_GPU_VIRTUAL_ADDRESS address) const {
    const std::lock_guard lock(mutex_);
    auto after = memory_.upper_bound(address);
    if (after == memory_.begin()) {
        return 0;
    }
    const auto& [start, size] = *--after;
    return address - start < size ? size - (address - start) : 0;
}

void DeviceState::add_memory(const char* data, uint64_t size) {
    const std::lock_guard lock(mutex_);
    memory_[reinterpret_cast<uint64_t>(data)] = size;
}

void DeviceState::forget_memory(const char* data) {
    const std::lock_guard lock(mutex_);
    memory_.erase(reinterpret_cast<uint64_t>(data));
}

bool DeviceState::reserve(uint64_t size) {
    const std::lock_guard lock(mutex_);
    if (strict.budget > 0 && (reserved_ > strict.budget || size > strict.budget - reserved_)) {
        return false;
    }
    reserved_ += size;
    counters.device_bytes += size;
    return true;
}

void DeviceState::release(uint64_t size) {
    const std::lock_guard lock(mutex_);
    reserved_ -= size;
    counters.device_bytes -= size;
}

void DeviceState::add_mapping(CachedMapping* mapping) {
    const std::lock_guard lock(mutex_);
    mappings_.insert(mapping);
}

void DeviceState::forget_mapping(CachedMapping* mapping) {
    const std::lock_guard lock(mutex_);
    mappings_.erase(mapping);
}

void DeviceState::spoil_mappings(const Commands& commands) {
    const std::lock_guard lock(mutex_);
    if (mappings_.empty()) {
        return;
    }
    const std::vector<const char*> used = addresses_of(commands);
    for (CachedMapping* mapping : mappings_) {
        if (std::ranges::any_of(used, [&](const char* address) { return mapping->holds(address); })) {
            mapping->spoil();
        }
    }
}

}  // namespace dmlgraph::software
