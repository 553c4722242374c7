#include "software_adapter/cached_mapping.h"

#include <algorithm>
#include <cstring>

#include "software_adapter/device_state.h"

namespace dmlgraph::software {
namespace {

constexpr int poison = 0xA5;

struct Bytes {
    uint64_t begin;
    uint64_t count;
};

Bytes bytes_of(const D3D12_RANGE* range, uint64_t size) {
    if (!range) {
        return {0, size};
    }
    const uint64_t end = std::min<uint64_t>(range->End, size);
    return {range->Begin, end > range->Begin ? end - range->Begin : 0};
}

}  // namespace

CachedMapping::CachedMapping(DeviceState& device, char* memory, uint64_t size, bool writes_back)
    : device_(device), memory_(memory), size_(size), writes_back_(writes_back) {
    device_.add_mapping(this);
}

CachedMapping::~CachedMapping() { device_.forget_mapping(this); }

char* CachedMapping::map(const D3D12_RANGE* range) {
    const std::lock_guard lock(mutex_);
    if (!seen_) {
        seen_ = std::make_unique_for_overwrite<char[]>(size_);
    }
    if (maps_++ == 0) {
        stale_ = false;
        std::memset(seen_.get(), poison, size_);
        const auto [begin, count] = bytes_of(range, size_);
        std::memcpy(seen_.get() + begin, memory_ + begin, count);
    }
    return seen_.get();
}

void CachedMapping::unmap(const D3D12_RANGE* range) {
    const std::lock_guard lock(mutex_);
    if (maps_ == 0) {
        return;
    }
    --maps_;
    if (maps_ > 0) {
        return;
    }
    const auto [begin, count] = bytes_of(range, size_);
    if (writes_back_ && !stale_) {
        std::memcpy(memory_ + begin, seen_.get() + begin, count);
    }
    std::memset(seen_.get(), poison, size_);
}

void CachedMapping::spoil() {
    const std::lock_guard lock(mutex_);
    if (maps_ > 0) {
        stale_ = true;
        std::memset(seen_.get(), poison, size_);
    }
}

}  // namespace dmlgraph::software
