#include "cpu/thread_pool.h"

#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#endif
#if !defined(_WIN32)
#include <pthread.h>
#endif
#if defined(__SSE2__) || defined(_M_X64)
#include <immintrin.h>
#endif

namespace dmlgraph::cpu {
namespace {

constexpr int spins = 2000;  // some ten microseconds: the next step of the same run comes sooner than a wake-up
constexpr int most_threads = 1024;

void pause() {
#if defined(__SSE2__) || defined(_M_X64)
    _mm_pause();
#elif defined(__aarch64__) && !defined(_MSC_VER)
    __asm__ volatile("yield");
#endif
}

int processors() {
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        return CPU_COUNT(&set);
    }
#endif
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// What the threads share at the moment.
struct Job {
    Chunks chunks;
    ParallelTask task;
    int workers;
};

// Helpers look for work for a moment after each job, then sleep until there is some.
class ThreadPool {
public:
    // Runs the job to its end; at most one at a time.
    void run(Job& job) {
        while (static_cast<int>(helpers_.size()) < job.workers - 1) {
            try {
                helpers_.emplace_back([this] { serve(); });
            } catch (const std::system_error&) {
                break;  // fewer threads, then
            }
        }
        {
            const std::lock_guard lock(mutex_);
            job_ = &job;
            joined_ = 0;
            posted_.fetch_add(1, std::memory_order_relaxed);
        }
        work_.notify_all();
        job.task(0, job.chunks);
        {
            const std::lock_guard lock(mutex_);
            job_ = nullptr;  // who comes now comes too late
        }
        for (int spin = 0; busy_.load(std::memory_order_acquire) > 0; ++spin) {
            spin < spins ? pause() : std::this_thread::yield();
        }
    }

private:
    void serve() {
        std::uint64_t seen = 0;
        while (true) {
            for (int spin = 0; spin < spins && posted_.load(std::memory_order_relaxed) == seen; ++spin) {
                pause();
            }
            std::unique_lock lock(mutex_);
            work_.wait(lock, [&] { return posted_.load(std::memory_order_relaxed) != seen; });
            seen = posted_.load(std::memory_order_relaxed);
            if (job_ == nullptr || joined_ + 1 >= job_->workers) {
                continue;
            }
            Job& job = *job_;
            const int worker = ++joined_;
            busy_.fetch_add(1, std::memory_order_relaxed);
            lock.unlock();
            job.task(worker, job.chunks);
            busy_.fetch_sub(1, std::memory_order_release);
        }
    }

    std::mutex mutex_;
    std::condition_variable work_;
    Job* job_ = nullptr;
    int joined_ = 0;
    std::atomic<int> busy_{0};
    std::atomic<std::uint64_t> posted_{0};
    std::vector<std::thread> helpers_;
};

struct Shared {
    std::mutex mutex;  // held by whoever uses the helpers
    ThreadPool pool;
};

// Made when first needed, never destroyed: when the process ends, threads are inside it.
std::atomic<Shared*> shared{nullptr};

#if !defined(_WIN32)
// A forked process has none of the threads, and a lock may be held by one of them: it starts anew.
[[maybe_unused]] const int fork_handler = pthread_atfork(nullptr, nullptr, [] { shared = nullptr; });
#endif

Shared& shared_pool() {
    Shared* found = shared.load(std::memory_order_acquire);
    if (found == nullptr) {
        auto made = std::make_unique<Shared>();
        if (shared.compare_exchange_strong(found, made.get(), std::memory_order_acq_rel)) {
            found = made.release();
        }
    }
    return *found;
}

}  // namespace

int default_threads() {
    static const int count = [] {
        const char* const asked = std::getenv("DMLGRAPH_THREADS");
        const int wanted = asked == nullptr ? 0 : std::atoi(asked);
        return std::min(wanted > 0 ? wanted : processors(), most_threads);
    }();
    return count;
}

void run_parallel(std::int64_t count, int workers, ParallelTask task) {
    workers = static_cast<int>(std::min<std::int64_t>(workers, count));
    if (workers > 1) {
        Shared& state = shared_pool();
        const std::unique_lock lock(state.mutex, std::try_to_lock);
        if (lock) {
            Job job{Chunks(count, workers), task, workers};
            state.pool.run(job);
            return;
        }
    }
    Chunks chunks(count, 1);
    task(0, chunks);
}

}  // namespace dmlgraph::cpu
