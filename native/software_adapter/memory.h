// Zeroed memory of a heap or a committed resource.
#pragma once

#include <cstdint>

#include "software_adapter/device_state.h"

namespace dmlgraph::software {

class Memory {
public:
    // Throws std::bad_alloc.
    Memory(DeviceState& device, uint64_t size);
    ~Memory();
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    char* data() const { return data_; }
    uint64_t size() const { return size_; }

private:
    DeviceState& device_;
    uint64_t size_;
    char* data_;
};

}  // namespace dmlgraph::software
