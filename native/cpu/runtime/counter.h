// A number that threads sleep on until it changes.
#pragma once

#include <atomic>
#include <cstdint>

#if !defined(__linux__)
#include <condition_variable>
#include <mutex>
#endif

namespace dmlgraph::cpu {

// What was written before `add_one` is seen by a thread that reads the new value. A thread that sleeps is woken by
// `wake_all` after it, and needs no other.
//
// On Linux an std::atomic does that. Where a system has no futex, libstdc++ (bits/atomic_wait.h of GCC 12) compares the
// number before it takes the lock that the waiting thread gives up, and the thread that notifies takes no lock: a
// notification in between is lost, and the thread sleeps on.
class Counter {
public:
    std::uint32_t value() const { return value_.load(std::memory_order_acquire); }

    void add_one() { value_.fetch_add(1, std::memory_order_release); }

#if defined(__linux__)
    void wake_all() { value_.notify_all(); }

    void sleep_while(std::uint32_t seen) const { value_.wait(seen, std::memory_order_acquire); }
#else
    void wake_all() {
        {
            const std::lock_guard lock(mutex_);
        }  // who has compared the old value sleeps by now
        changed_.notify_all();
    }

    void sleep_while(std::uint32_t seen) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return value() != seen; });
    }
#endif

private:
    std::atomic<std::uint32_t> value_{0};
#if !defined(__linux__)
    std::mutex mutex_;
    std::condition_variable changed_;
#endif
};

}  // namespace dmlgraph::cpu
