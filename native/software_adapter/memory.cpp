#include "software_adapter/memory.h"

#include <sys/mman.h>

#include <new>

#include "software_adapter/counters.h"

namespace dmlgraph::software {
namespace {

// From this size on, the page faults that large pages save outweigh the memory they waste.
constexpr uint64_t large_page = 2 << 20;

}  // namespace

Memory::Memory(DeviceState& device, uint64_t size, D3D12_HEAP_TYPE heap)
    : device_(device),
      size_((size + resource_placement_alignment - 1) & ~(resource_placement_alignment - 1)),
      is_device_memory_(heap == D3D12_HEAP_TYPE_DEFAULT) {
    if (is_device_memory_ && !device_.reserve(size_)) {
        throw std::bad_alloc();
    }
    void* mapped = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) {
        release_budget();
        throw std::bad_alloc();
    }
    data_ = static_cast<char*>(mapped);
    if (size_ >= large_page) {
        madvise(data_, size_, MADV_HUGEPAGE);
    }
    device_.add_memory(data_, size_);
    counters.live_bytes += size_;
}

Memory::~Memory() {
    device_.forget_memory(data_);
    munmap(data_, size_);
    counters.live_bytes -= size_;
    release_budget();
}

void Memory::release_budget() {
    if (is_device_memory_) {
        device_.release(size_);
    }
}

}  // namespace dmlgraph::software
