#include "software_adapter/device_state.h"

#include <cstdio>

#include "software_adapter/log.h"

namespace dmlgraph::software {

void DeviceState::remove(HRESULT reason, const std::string& why) {
    HRESULT expected = S_OK;
    if (!removed_reason_.compare_exchange_strong(expected, reason)) {
        return;
    }
    char code[16];
    std::snprintf(code, sizeof code, "0x%08x", static_cast<uint32_t>(reason));
    log(std::string("device removed (") + code + "): " + why);
    timeline.finish();
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

}  // namespace dmlgraph::software
