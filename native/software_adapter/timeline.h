// Fences of one device: who waits for which value.
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

    // Sets the fence and wakes whoever waits for what it reached.
    void signal(FenceValue& fence, uint64_t value);

    // Returns once the fence has reached the value.
    void wait(const FenceValue& fence, uint64_t value);

    // False: the value is reached already. True: `wake` will be called once, from the thread that reaches it.
    bool when_reached(const FenceValue& fence, uint64_t value, std::function<void()> wake);

    // The fence goes away; nobody is woken.
    void forget(const FenceValue& fence);

    // Every fence counts as having reached every value from now on.
    void finish();

private:
    struct Waiter {
        const FenceValue* fence;
        uint64_t value;
        std::function<void()> wake;
    };

    // Wakes whoever waits for what is reached. Takes the lock that guards waiters_ and gives it up.
    void wake_reached(std::unique_lock<std::mutex> lock);

    std::mutex mutex_;
    std::condition_variable changed_;
    std::atomic<bool> finished_{false};
    std::vector<Waiter> waiters_;
};

}  // namespace dmlgraph::software
