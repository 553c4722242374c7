// Processors: how many there are, and where threads run.
#pragma once

#include <atomic>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif

namespace dmlgraph::cpu {

// How many processors this process may use.
int processors();

// The processor that the calling thread runs on; -1 where that cannot be told.
int this_processor();

// Where a helper thread runs.
//
// A thread that is woken should not land on the processor of the one that wakes it and goes on working. The scheduler
// mostly sees to that, but in virtual machines it takes sleeping processors for busy ones (Linux's vcpu_is_preempted),
// and the two share one processor for many milliseconds while another one sleeps.
class Placement {
public:
    // On the helper itself: when it has woken up or worked, and when it is about to sleep.
    void note();
    void sleep() { processor_.store(unknown, std::memory_order_release); }

    // On another thread: keeps the helper, if it sleeps or was last seen on this processor, off it until its next
    // `note`.
    void keep_off(int processor, std::thread& helper);

private:
    static constexpr int unknown = -1;

    std::atomic<int> processor_{unknown};
#if defined(__linux__)
    std::atomic<bool> kept_off_{false};
    cpu_set_t allowed_{};  // while it is kept off: what it is given back
#endif
};

}  // namespace dmlgraph::cpu
