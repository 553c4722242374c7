// The fences of one device and the threads and queues that wait for their values.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

namespace dmlgraph::software {

using FenceValue = std::atomic<uint64_t>;

class Timeline {
public:
    bool reached(const FenceValue& fence, uint64_t value) const { return finished_ || fence >= value; }

    // Sets the fence and wakes all waiters whose value is reached.
    void signal(FenceValue& fence, uint64_t value);

    // Returns once the fence has reached the value.
    void wait(const FenceValue& fence, uint64_t value);

    // Returns false if the value is already reached. Otherwise `wake` will be called once, from the thread that
    // reaches it.
    bool when_reached(const FenceValue& fence, uint64_t value, std::function<void()> wake);

    // Removes the fence without waking its waiters.
    void forget(const FenceValue& fence);

    // From now on, every fence counts as having reached every value.
    void finish();

private:
    struct Waiter {
        const FenceValue* fence;
        uint64_t value;
        std::function<void()> wake;
    };

    // Wakes all waiters whose value is reached. Takes over the lock that guards waiters_ and releases it.
    void wake_reached(std::unique_lock<std::mutex> lock);

    std::mutex mutex_;
    std::condition_variable changed_;
    std::atomic<bool> finished_{false};
    std::vector<Waiter> waiters_;
};

}  // namespace dmlgraph::software
