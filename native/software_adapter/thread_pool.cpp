#include "software_adapter/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "software_adapter/log.h"
#include "software_adapter/shader_abi.h"

namespace dmlgraph::software {
namespace {

using Clock = std::chrono::steady_clock;

// Waking a helper costs some microseconds; work that is over by then stays on the calling thread.
constexpr auto worth_helping = std::chrono::microseconds(20);

uint32_t core_count() {
    cpu_set_t cores;
    return sched_getaffinity(0, sizeof cores, &cores) == 0 ? static_cast<uint32_t>(CPU_COUNT(&cores)) : 1;
}

// A loop under way. Pieces get smaller towards its end, so that all threads finish together.
class Loop {
public:
    Loop(uint64_t count, RangeTask task) : count_(count), task_(task) {}

    uint64_t left() const { return count_ - std::min(count_, next_.load(std::memory_order_relaxed)); }

    // Runs the next `size` indices, or what is left; false when nothing is.
    bool run(uint64_t size) {
        const uint64_t first = next_.fetch_add(size, std::memory_order_relaxed);
        if (first >= count_) {
            return false;
        }
        task_(first, std::min(first + size, count_));
        return true;
    }

    // One of `threads` that share what is left.
    void share(uint32_t threads) {
        while (run(std::max<uint64_t>(1, left() / (4 * threads)))) {
        }
    }

private:
    uint64_t count_;
    RangeTask task_;
    std::atomic<uint64_t> next_{0};
};

// Helpers sleep until there is a loop.
class ThreadPool {
public:
    explicit ThreadPool(uint32_t threads) : threads_(threads) {
        try {
            for (uint32_t i = 1; i < threads; ++i) {
                helpers_.emplace_back([this] { serve(); });
            }
        } catch (const std::system_error& error) {
            log(std::string("fewer threads than cores: ") + error.what());
        }
    }
    ~ThreadPool() {
        {
            const std::lock_guard lock(mutex_);
            retired_ = true;
        }
        work_.notify_all();
        for (auto& helper : helpers_) {
            helper.join();
        }
    }
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    uint32_t threads() const { return threads_; }

    // Runs the loop to its end together with the helpers.
    void run(Loop& loop) {
        {
            const std::lock_guard lock(mutex_);
            loop_ = &loop;
        }
        work_.notify_all();
        loop.share(threads());
        std::unique_lock lock(mutex_);
        loop_ = nullptr;
        idle_.wait(lock, [this] { return busy_ == 0; });
    }

private:
    void serve() {
        std::unique_lock lock(mutex_);
        while (true) {
            work_.wait(lock, [this] { return retired_ || (loop_ && loop_->left() > 0); });
            if (retired_) {
                return;
            }
            Loop& loop = *loop_;
            ++busy_;
            lock.unlock();
            loop.share(threads());
            lock.lock();
            if (--busy_ == 0) {
                idle_.notify_one();
            }
        }
    }

    const uint32_t threads_;
    std::mutex mutex_;
    std::condition_variable work_;
    std::condition_variable idle_;
    Loop* loop_ = nullptr;
    uint32_t busy_ = 0;
    bool retired_ = false;
    std::vector<std::thread> helpers_;
};

// The one pool, made when first needed. Never destroyed: when the process ends, threads may be inside it.
struct Shared {
    std::mutex mutex;  // held by whoever uses the helpers
    std::unique_ptr<ThreadPool> pool;
};

std::atomic<Shared*> shared{new Shared};
std::atomic<uint32_t> wanted_threads{0};

// A forked process has none of the threads, and the lock may be held by one of them: it starts anew.
[[maybe_unused]] const int fork_handler = pthread_atfork(nullptr, nullptr, [] { shared = new Shared; });

uint32_t thread_count() {
    static const uint32_t cores = core_count();
    const uint32_t wanted = wanted_threads;
    return wanted == 0 ? cores : wanted;
}

// Runs the rest of the loop with helpers, if nobody else has them.
void run_with_helpers(Loop& loop, uint32_t threads) {
    Shared& state = *shared;
    const std::unique_lock lock(state.mutex, std::try_to_lock);
    if (!lock) {
        loop.share(1);
        return;
    }
    if (!state.pool || state.pool->threads() != threads) {
        state.pool = nullptr;
        state.pool = std::make_unique<ThreadPool>(threads);
    }
    state.pool->run(loop);
}

}  // namespace

void parallel_for(uint64_t count, RangeTask task) {
    if (count == 0) {
        return;
    }
    const uint32_t threads = thread_count();
    if (threads == 1 || count == 1) {
        task(0, count);
        return;
    }
    Loop loop(count, task);
    const auto start = Clock::now();
    for (uint64_t size = 1; loop.run(size); size *= 2) {
        if (loop.left() > 0 && Clock::now() - start >= worth_helping) {
            run_with_helpers(loop, threads);
            return;
        }
    }
}

void set_thread_count(uint32_t count) {
    wanted_threads = count;
}

}  // namespace dmlgraph::software

void sw_set_threads(uint32_t count) {
    dmlgraph::software::set_thread_count(count);
}
