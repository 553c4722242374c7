#include "cpu/tests/failing_allocations.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <new>

namespace {

constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

std::atomic<std::int64_t> left = never;  // allocations before the one that fails; negative after it

void fail_if_it_is_time() {
    if (left.load(std::memory_order_relaxed) != never && left.fetch_sub(1, std::memory_order_relaxed) == 0) {
        throw std::bad_alloc();
    }
}

void* allocated(void* memory) {
    if (memory == nullptr) {
        throw std::bad_alloc();
    }
    return memory;
}

void* allocate(std::size_t bytes) {
    fail_if_it_is_time();
    return allocated(std::malloc(bytes == 0 ? 1 : bytes));
}

void* allocate(std::size_t bytes, std::align_val_t alignment) {
    fail_if_it_is_time();
    const auto unit = static_cast<std::size_t>(alignment);
#if defined(_WIN32)
    return allocated(_aligned_malloc(bytes, unit));
#else
    void* memory = nullptr;  // of exactly these bytes: sanitizers watch what is behind them
    return allocated(posix_memalign(&memory, std::max(unit, sizeof(void*)), bytes) == 0 ? memory : nullptr);
#endif
}

void deallocate(void* memory) noexcept { std::free(memory); }

void deallocate_aligned(void* memory) noexcept {
#if defined(_WIN32)
    _aligned_free(memory);
#else
    std::free(memory);
#endif
}

template <class... Arguments>
void* or_null(Arguments... arguments) noexcept {
    try {
        return allocate(arguments...);
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}

}  // namespace

// All of them: a sanitizer has its own for those that are left out.
void* operator new(std::size_t bytes) { return allocate(bytes); }
void* operator new[](std::size_t bytes) { return allocate(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return or_null(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return or_null(bytes); }
void* operator new(std::size_t bytes, std::align_val_t alignment) { return allocate(bytes, alignment); }
void* operator new[](std::size_t bytes, std::align_val_t alignment) { return allocate(bytes, alignment); }
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
    return or_null(bytes, alignment);
}
void* operator new[](std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
    return or_null(bytes, alignment);
}
void operator delete(void* memory) noexcept { deallocate(memory); }
void operator delete[](void* memory) noexcept { deallocate(memory); }
void operator delete(void* memory, std::size_t) noexcept { deallocate(memory); }
void operator delete[](void* memory, std::size_t) noexcept { deallocate(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { deallocate(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { deallocate(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { deallocate_aligned(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { deallocate_aligned(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { deallocate_aligned(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { deallocate_aligned(memory); }
void operator delete(void* memory, std::align_val_t, const std::nothrow_t&) noexcept { deallocate_aligned(memory); }
void operator delete[](void* memory, std::align_val_t, const std::nothrow_t&) noexcept { deallocate_aligned(memory); }

namespace dmlgraph::cpu::tests {

FailingAllocation::FailingAllocation(std::int64_t before) { left = before; }

FailingAllocation::~FailingAllocation() { left = never; }

bool FailingAllocation::has_failed() const { return left < 0; }

}  // namespace dmlgraph::cpu::tests
