// Shares pieces of work between threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <type_traits>

namespace dmlgraph::cpu {

// The pieces 0 … count − 1, taken a few at a time by the workers that share them.
class Chunks {
public:
    Chunks(std::int64_t count, int workers)
        : count_(count), size_(workers == 1 ? count : std::max<std::int64_t>(1, count / (workers * 8))) {}

    // The next pieces, first ≤ i < last; false when none are left.
    bool next(std::int64_t& first, std::int64_t& last) {
        first = next_.fetch_add(size_, std::memory_order_relaxed);
        last = std::min(first + size_, count_);
        return first < count_;
    }

private:
    std::int64_t count_;
    std::int64_t size_;
    std::atomic<std::int64_t> next_{0};
};

// A borrowed callable void(int worker, Chunks&) that must not throw.
class ParallelTask {
public:
    template <class Callable>
        requires std::is_invocable_v<const Callable&, int, Chunks&>
    ParallelTask(const Callable& callable)
        : callable_(&callable), call_([](const void* object, int worker, Chunks& chunks) {
              (*static_cast<const Callable*>(object))(worker, chunks);
          }) {}

    void operator()(int worker, Chunks& chunks) const { call_(callable_, worker, chunks); }

private:
    const void* callable_;
    void (*call_)(const void*, int, Chunks&);
};

// The workers a run gets: DMLGRAPH_THREADS, or as many as the process has processors.
int default_threads();

// Runs the task on up to `workers` threads, the calling one being worker 0, over `count` pieces; returns when all are
// done. Calls from several threads at a time are fine: one of them gets the helpers.
void run_parallel(std::int64_t count, int workers, ParallelTask task);

}  // namespace dmlgraph::cpu
