// What the processor sees of a buffer whose caches the system keeps coherent only when it is mapped and unmapped:
// memory of its own. Adapters that are strict about `readback` use it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "abi/d3d12.h"

namespace dmlgraph::software {

using namespace abi;

class DeviceState;

class CachedMapping {
public:
    // If `writes_back`, what the processor writes reaches the buffer.
    CachedMapping(DeviceState& device, char* memory, uint64_t size, bool writes_back);
    ~CachedMapping();
    CachedMapping(const CachedMapping&) = delete;
    CachedMapping& operator=(const CachedMapping&) = delete;

    // The first mapping reads the bytes of `range` (null: all) from the buffer; all others are poisoned.
    char* map(const D3D12_RANGE* range);
    // The last one writes the bytes of `range` (null: all) to the buffer, unless an execution came in between. Then all
    // bytes are poisoned: whoever still reads them notices.
    void unmap(const D3D12_RANGE* range);

    bool holds(const char* address) const { return memory_ <= address && address < memory_ + size_; }
    // The adapter works on the buffer: what is mapped is stale from now on.
    void spoil();

private:
    DeviceState& device_;
    char* const memory_;
    const uint64_t size_;
    const bool writes_back_;
    std::mutex mutex_;
    std::unique_ptr<char[]> seen_;
    unsigned maps_ = 0;
    bool stale_ = false;
};

}  // namespace dmlgraph::software
