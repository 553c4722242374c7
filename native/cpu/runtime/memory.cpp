#include "cpu/runtime/memory.h"

#include <algorithm>
#include <cstdint>
#include <new>

#if defined(_WIN32)
#include <windows.h>
#else
#include <sys/mman.h>
#include <unistd.h>
#endif

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "cpu/runtime/cache_line.h"

namespace dmlgraph::cpu {
namespace {

constexpr std::size_t huge_page = 2 << 20;

// Large memory begins at its own large page: each large page is one page fault instead of 512.
constexpr std::size_t alignment(std::size_t bytes) { return bytes >= 2 * huge_page ? huge_page : cache_line; }

}  // namespace

std::byte* allocate(std::size_t bytes) {
    void* const memory = ::operator new(std::max(bytes, cache_line), std::align_val_t{alignment(bytes)});
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (alignment(bytes) == huge_page) {
        madvise(memory, bytes / huge_page * huge_page, MADV_HUGEPAGE);  // only a hint: nothing depends on it
    }
#endif
    return static_cast<std::byte*>(memory);
}

void deallocate(std::byte* memory, std::size_t bytes) noexcept {
    ::operator delete(memory, std::align_val_t{alignment(bytes)});
}

void trim_freed() noexcept {
#if defined(__GLIBC__)
    malloc_trim(0);
#endif
}

std::size_t physical_memory() {
#if defined(_WIN32)
    MEMORYSTATUSEX status{};
    status.dwLength = sizeof status;
    return GlobalMemoryStatusEx(&status) ? static_cast<std::size_t>(status.ullTotalPhys) : 0;
#else
    const long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
    return pages < 0 || bytes < 0 ? 0 : static_cast<std::size_t>(pages) * static_cast<std::size_t>(bytes);
#endif
}

}  // namespace dmlgraph::cpu
