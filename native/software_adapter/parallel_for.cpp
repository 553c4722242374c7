#include "software_adapter/parallel_for.h"

#include <algorithm>
#include <atomic>
#include <chrono>

#include "cpu/runtime/processors.h"
#include "cpu/runtime/thread_pool.h"
#include "software_adapter/shader_abi.h"

namespace dmlgraph::software {
namespace {

using Clock = std::chrono::steady_clock;

// Waking a helper costs some microseconds; shorter work stays on the calling thread.
constexpr auto worth_helping = std::chrono::microseconds(20);

std::atomic<uint32_t> wanted_threads{0};

int thread_count() {
    static const int all = cpu::processors();
    const uint32_t wanted = wanted_threads;
    return wanted == 0 ? all : static_cast<int>(wanted);
}

}  // namespace

void parallel_for(uint64_t count, RangeTask task) {
    const int threads = thread_count();
    if (threads == 1 || count <= 1) {
        if (count > 0) {
            task(0, count);
        }
        return;
    }
    // Run on this thread alone, in growing pieces, until it is clear whether the work takes long.
    const auto start = Clock::now();
    uint64_t done = 0;
    for (uint64_t size = 1; done < count; size *= 2) {
        if (Clock::now() - start >= worth_helping) {
            break;
        }
        const uint64_t last = std::min(done + size, count);
        task(done, last);
        done = last;
    }
    if (done == count) {
        return;
    }
    cpu::run_parallel(static_cast<int64_t>(count - done), threads, [&](int, cpu::Chunks& chunks) {
        int64_t first, last;
        while (chunks.next(first, last)) {
            task(done + static_cast<uint64_t>(first), done + static_cast<uint64_t>(last));
        }
    });
}

void set_thread_count(uint32_t count) { wanted_threads = count; }

}  // namespace dmlgraph::software

void sw_set_threads(uint32_t count) { dmlgraph::software::set_thread_count(count); }

void sw_use_helpers(void* helpers) { dmlgraph::cpu::use_helpers(helpers); }
