#include "software_adapter/timeline.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace dmlgraph::software {

void Timeline::signal(FenceValue& fence, uint64_t value) {
    std::unique_lock lock(mutex_);
    fence = value;
    wake_reached(std::move(lock));
}

void Timeline::wait(const FenceValue& fence, uint64_t value) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return reached(fence, value); });
}

bool Timeline::when_reached(const FenceValue& fence, uint64_t value, std::function<void()> wake) {
    const std::lock_guard lock(mutex_);
    if (reached(fence, value)) {
        return false;
    }
    waiters_.push_back({&fence, value, std::move(wake)});
    return true;
}

void Timeline::forget(const FenceValue& fence) {
    const std::lock_guard lock(mutex_);
    std::erase_if(waiters_, [&](const Waiter& waiter) { return waiter.fence == &fence; });
}

void Timeline::finish() {
    std::unique_lock lock(mutex_);
    finished_ = true;
    wake_reached(std::move(lock));
}

void Timeline::wake_reached(std::unique_lock<std::mutex> lock) {
    const auto ready = std::ranges::stable_partition(
        waiters_, [&](const Waiter& waiter) { return !reached(*waiter.fence, waiter.value); });
    const std::vector<Waiter> woken(std::make_move_iterator(ready.begin()), std::make_move_iterator(ready.end()));
    waiters_.erase(ready.begin(), ready.end());
    lock.unlock();
    changed_.notify_all();
    for (const auto& waiter : woken) {
        waiter.wake();
    }
}

}  // namespace dmlgraph::software
