#include "cpu/runtime/thread_pool.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <exception>
#include <memory>
#include <thread>

#include "cpu/compiler.h"
#include "cpu/runtime/counter.h"
#include "cpu/runtime/processors.h"

#if !defined(_WIN32)
#include <pthread.h>
#endif

namespace dmlgraph::cpu {
namespace {

// A pause takes 10 to 50 nanoseconds. The next step of a run comes soon, and to wake a helper takes longer than most
// steps leave it without work. Who waits for a helper that has no processor leaves its own to it, if the job has more
// threads than there are processors; else other processes would get it, and soon both threads would wait for each other
// in turn.
constexpr int helper_spins = 8000;
constexpr int caller_spins = 2000;
constexpr int patient_caller_spins = 1 << 19;
constexpr int most_threads = 1024;
constexpr auto moment = std::chrono::microseconds(100);
using Clock = std::chrono::steady_clock;

std::atomic<bool> keeping_off{true};

// The job that the threads are sharing.
struct Job {
    Pieces pieces;
    ParallelTask task;
    int helpers;
    std::atomic<bool> has_failed{false};
    std::exception_ptr failure{};  // the first one; read it when all workers have finished

    void run(int worker) noexcept {
        Chunks chunks(pieces, worker);
        try {
            task(worker, chunks);
        } catch (...) {
            pieces.drop();
            if (!has_failed.exchange(true, std::memory_order_relaxed)) {
                failure = std::current_exception();
            }
        }
    }
};

// After each job helpers look for work for a short time, then sleep until there is some.
class ThreadPool {
public:
    // Runs the job to its end; at most one at a time. Sleeping helpers are woken if that is worth it, or if the
    // previous job was very recent, because then more jobs will follow.
    void run(Job& job, bool wake) noexcept {
        wake = wake || Clock::now() - last_ < moment;
        hire(job.helpers);
        job_ = &job;
        finished_.store(0, std::memory_order_relaxed);
        open_.store(Open{job.helpers, job.helpers}, std::memory_order_release);
        posted_.add_one();
        if (wake) {
            const int processor = keeping_off.load(std::memory_order_relaxed) ? this_processor() : -1;
            for (int h = 0; h < std::min(job.helpers, static_cast<int>(helpers_.size())); ++h) {
                Helper& helper = helpers_[static_cast<std::size_t>(h)];
                helper.placement.keep_off(processor, helper.thread);
            }
            posted_.wake_all();
        }
        job.run(0);
        const int joined = job.helpers - open_.exchange({}, std::memory_order_acquire).places;  // no more may join
        const int spins = job.helpers < processors_ ? patient_caller_spins : caller_spins;
        for (int spin = 0; finished_.load(std::memory_order_acquire) < joined; ++spin) {
            spin < spins ? pause() : std::this_thread::yield();
        }
        last_ = Clock::now();
    }

private:
    // How many helpers the job is for, always the first ones, and how many may still join.
    struct Open {
        std::int32_t helpers = 0;
        std::int32_t places = 0;
    };

    struct Helper {
        Placement placement;
        std::thread thread;
    };

    // Makes helpers until there are `count`, or as many as the system allows.
    void hire(int count) {
        while (static_cast<int>(helpers_.size()) < count) {
            const std::size_t before = helpers_.size();
            try {
                Helper& helper = helpers_.emplace_back();
                helper.thread = std::thread(
                    [this, &helper, worker = static_cast<int>(before) + 1] { serve(worker, helper.placement); });
            } catch (const std::exception&) {  // of the system, or std::bad_alloc
                helpers_.resize(before);
                return;
            }
        }
    }

    void serve(int worker, Placement& placement) {
        std::uint32_t seen = 0;
        while (true) {
            for (int spin = 0; spin < helper_spins && posted_.value() == seen; ++spin) {
                pause();
            }
            if (posted_.value() == seen) {
                placement.sleep();
                posted_.sleep_while(seen);
            }
            seen = posted_.value();
            placement.note();
            // The job waits for every helper that takes a place, so only such a helper may touch it.
            const auto left = [](Open open) { return Open{open.helpers, open.places - 1}; };
            Open open = open_.load(std::memory_order_relaxed);
            while (open.places > 0 && worker <= open.helpers) {
                if (open_.compare_exchange_weak(open, left(open), std::memory_order_acq_rel)) {
                    job_->run(worker);
                    finished_.fetch_add(1, std::memory_order_release);
                    break;
                }
            }
        }
    }

    const int processors_ = processors();
    Job* job_ = nullptr;
    Clock::time_point last_{};            // when the last job was done
    alignas(cache_line) Counter posted_;  // of jobs
    alignas(cache_line) std::atomic<Open> open_{Open{}};
    alignas(cache_line) std::atomic<int> finished_{0};  // helpers that have finished with it
    std::deque<Helper> helpers_;                        // a deque, so that they do not move
};

struct Shared {
    std::atomic<bool> is_taken{false};  // whether a job uses the helpers
    ThreadPool pool;
};

// Made at first use and never destroyed, because threads are inside it when the process ends.
std::atomic<Shared*> shared{nullptr};

#if !defined(_WIN32)
// A forked process has no helper threads, and one of them may have held a lock: it gets a new pool.
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
        const int wanted = asked == nullptr ? 0 : static_cast<int>(std::strtol(asked, nullptr, 10));
        return std::min(wanted > 0 ? wanted : processors(), most_threads);
    }();
    return count;
}

void* helpers() { return &shared_pool(); }

void use_helpers(void* helpers) { shared.store(static_cast<Shared*>(helpers), std::memory_order_release); }

void keep_helpers_off(bool on) { keeping_off.store(on, std::memory_order_relaxed); }

void run_parallel(std::int64_t count, int workers, ParallelTask task, bool wake, const std::atomic<bool>* stop,
                  std::int64_t most) {
    workers = static_cast<int>(std::min<std::int64_t>(workers, count));
    if (workers > 1) {
        Shared& state = shared_pool();
        if (!state.is_taken.exchange(true, std::memory_order_acquire)) {
            Job job{Pieces(count, workers, stop, most), task, workers - 1};
            state.pool.run(job, wake);
            state.is_taken.store(false, std::memory_order_release);
            if (job.failure) {
                std::rethrow_exception(job.failure);
            }
            return;
        }
    }
    Chunks chunks(count, stop, most);
    task(0, chunks);
}

}  // namespace dmlgraph::cpu
