#include "cpu/runtime/processors.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "cpu/compiler.h"
#include "cpu/runtime/quota.h"

#if defined(__linux__)
#include <pthread.h>
#elif defined(_WIN32)
#include <windows.h>
#endif

namespace dmlgraph::cpu {

namespace {

// The processors that the affinity of this process allows.
int allowed_processors() {
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        return CPU_COUNT(&set);
    }
#elif defined(_WIN32)
    DWORD_PTR allowed = 0, all = 0;
    if (GetProcessAffinityMask(GetCurrentProcess(), &allowed, &all) != 0) {
        // Zero: its threads may run in several groups of up to 64 processors, which such a mask has no room for.
        return allowed != 0 ? std::popcount(allowed) : static_cast<int>(GetActiveProcessorCount(ALL_PROCESSOR_GROUPS));
    }
#endif
    return static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace

int processors() {
    const int allowed = std::max(1, allowed_processors());
    return std::min(allowed, processor_quota().value_or(allowed));
}

std::size_t second_cache_bytes() {
    constexpr std::size_t usual = 512 << 10, least = 256 << 10, most = 2 << 20;
#if defined(DMLGRAPH_X86)
    constexpr std::uint32_t caches = 0x80000006;  // a leaf that Intel's processors have too
    static const std::size_t found = std::size_t{cpuid(caches).ecx >> 16} << 10;
    return found == 0 ? usual : std::clamp(found, least, most);
#else
    static_cast<void>(least), static_cast<void>(most);
    return usual;
#endif
}

#if defined(__linux__)

int this_processor() { return sched_getcpu(); }

void Placement::note() {
    if (kept_off_.load(std::memory_order_acquire)) {
        sched_setaffinity(0, sizeof allowed_, &allowed_);
        kept_off_.store(false, std::memory_order_release);
    }
    processor_.store(sched_getcpu(), std::memory_order_release);
}

void Placement::keep_off(int processor, std::thread& helper) {
    const int seen = processor_.load(std::memory_order_acquire);
    if (processor < 0 || (seen != unknown && seen != processor) || kept_off_.load(std::memory_order_acquire)) {
        return;
    }
    cpu_set_t others;
    if (pthread_getaffinity_np(helper.native_handle(), sizeof others, &others) != 0) {
        return;  // more processors than a cpu_set_t can hold
    }
    allowed_ = others;
    CPU_CLR(static_cast<std::size_t>(processor), &others);
    if (CPU_COUNT(&others) > 0 && pthread_setaffinity_np(helper.native_handle(), sizeof others, &others) == 0) {
        kept_off_.store(true, std::memory_order_release);
    }
}

#else

int this_processor() { return -1; }

void Placement::note() {}

void Placement::keep_off(int, std::thread&) {}

#endif

}  // namespace dmlgraph::cpu
