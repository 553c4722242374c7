// Processors: how many there are, and where threads run.
#pragma once

#include <atomic>
#include <cstddef>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif

namespace dmlgraph::cpu {

// How many processors this process may use, by its affinity and the quota of its container.
int processors();

// Bytes of a processor's second cache, or a usual number where the system does not say.
std::size_t second_cache_bytes();

// The processor on which the calling thread runs; -1 if that is unknown.
int this_processor();

// Where a helper thread runs.
//
// A thread that is woken should not run on the processor of the thread that wakes it and continues to work. The
// scheduler usually ensures that, but in virtual machines it treats sleeping processors as busy (Linux's
// vcpu_is_preempted), and the two threads share one processor for many milliseconds while another one sleeps.
class Placement {
public:
    // Called on the helper itself: after it has woken up or worked, and when it is about to sleep.
    void note();
    void sleep() { processor_.store(unknown, std::memory_order_release); }

    // Called on another thread: keeps the helper off this processor until its next `note`, if it sleeps or was last
    // seen here.
    void keep_off(int processor, std::thread& helper);

private:
    static constexpr int unknown = -1;

    std::atomic<int> processor_{unknown};
#if defined(__linux__)
    std::atomic<bool> kept_off_{false};
    cpu_set_t allowed_{};  // while it is kept off: the set to restore
#endif
};

}  // namespace dmlgraph::cpu
