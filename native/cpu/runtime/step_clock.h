// The time that the steps of a run take.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>
#include <vector>

namespace dmlgraph::cpu {

class StepClock {
public:
    // `each`: gets the seconds of each step; or null. `now_and_then`: is called between two steps when `every` seconds
    // have passed since the last time, and may throw; or none.
    explicit StepClock(std::vector<double>* each = nullptr, std::function<void()> now_and_then = {}, double every = 0)
        : each_(each), now_and_then_(std::move(now_and_then)), every_(every) {}

    // Before the first step.
    void start() {
        last_ = called_ = Clock::now();
        if (each_ != nullptr) {
            each_->clear();
        }
    }

    // After each step.
    void step_ended() {
        const Clock::time_point now = Clock::now();
        const double seconds = std::chrono::duration<double>(now - last_).count();
        longest_ = std::max(longest_, seconds);
        last_ = now;
        if (each_ != nullptr) {
            each_->push_back(seconds);
        }
        if (now_and_then_ && std::chrono::duration<double>(now - called_).count() >= every_) {
            now_and_then_();
            last_ = called_ = Clock::now();
        }
    }

    // The seconds of the step that took longest.
    double longest() const { return longest_; }

private:
    using Clock = std::chrono::steady_clock;

    std::vector<double>* each_;
    std::function<void()> now_and_then_;
    double every_, longest_ = 0;
    Clock::time_point last_, called_;
};

}  // namespace dmlgraph::cpu
