// Zeroed memory of a heap or a committed resource.
#pragma once

#include <cstdint>

#include "software_adapter/device_state.h"

namespace dmlgraph::software {

class Memory {
public:
    // Throws std::bad_alloc. `heap` says what kind of memory it is: a budget limits that of the default type.
    Memory(DeviceState& device, uint64_t size, D3D12_HEAP_TYPE heap);
    ~Memory();
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    char* data() const { return data_; }
    uint64_t size() const { return size_; }

private:
    void release_budget();

    DeviceState& device_;
    uint64_t size_;
    bool is_device_memory_;
    char* data_;
};

}  // namespace dmlgraph::software
