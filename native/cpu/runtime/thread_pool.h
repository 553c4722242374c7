// Shares items of work between threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "cpu/runtime/cache_line.h"

namespace dmlgraph::cpu {

inline constexpr std::int64_t all_pieces = std::numeric_limits<std::int64_t>::max();

// The pieces (items of work) 0 … count − 1 of a job, in a part for each worker. A worker that has finished its part
// takes pieces from other parts. So a worker gets mostly the same pieces at every run, whose memory is in its caches,
// and no worker is idle while there is work.
//
// When `stop` is true, no worker gets further pieces; it gets `most` at a time, so that it is asked in time.
class Pieces {
public:
    Pieces(std::int64_t count, int workers, const std::atomic<bool>* stop = nullptr, std::int64_t most = all_pieces)
        : parts_(std::min(workers, most_parts)), stop_(stop) {
        for (int p = 0; p < parts_; ++p) {
            part_[p].next.store(count * p / parts_, std::memory_order_relaxed);
            part_[p].end = count * (p + 1) / parts_;
        }
        at_a_time_ = std::clamp<std::int64_t>(count / (parts_ * 8), 1, most);
    }

    // Leaves out the pieces that no worker has begun.
    void drop() {
        for (int p = 0; p < parts_; ++p) {
            part_[p].next.store(part_[p].end, std::memory_order_relaxed);
        }
    }

private:
    friend class Chunks;
    static constexpr int most_parts = 64;

    struct alignas(cache_line) Part {
        std::atomic<std::int64_t> next;
        std::int64_t end;
    };

    int parts_;
    const std::atomic<bool>* stop_;
    std::int64_t at_a_time_;
    Part part_[most_parts];
};

// A worker's pieces, a few at a time.
class Chunks {
public:
    Chunks(Pieces& pieces, int worker) : pieces_(&pieces), stop_(pieces.stop_), own_(worker % pieces.parts_) {}
    // All pieces, for a single worker: it gets them at once if nothing can stop it.
    explicit Chunks(std::int64_t count, const std::atomic<bool>* stop = nullptr, std::int64_t most = all_pieces)
        : stop_(stop),
          count_(count),
          at_a_time_(stop == nullptr ? count : std::clamp<std::int64_t>(count / 64, 1, most)) {}

    // The next pieces, first ≤ i < last; false when none are left.
    bool next(std::int64_t& first, std::int64_t& last) {
        if (stop_ != nullptr && stop_->load(std::memory_order_relaxed)) {
            return false;
        }
        if (pieces_ == nullptr) {
            first = next_;
            last = next_ = std::min(next_ + at_a_time_, count_);
            return first < last;
        }
        for (; done_ < pieces_->parts_; ++done_) {
            Pieces::Part& part = pieces_->part_[(own_ + done_) % pieces_->parts_];
            first = part.next.fetch_add(pieces_->at_a_time_, std::memory_order_relaxed);
            last = std::min(first + pieces_->at_a_time_, part.end);
            if (first < part.end) {
                return true;
            }
        }
        return false;
    }

private:
    Pieces* pieces_ = nullptr;
    const std::atomic<bool>* stop_ = nullptr;
    int own_ = 0;
    int done_ = 0;  // parts of which nothing is left
    // Of a worker alone.
    std::int64_t next_ = 0;
    std::int64_t count_ = 0;
    std::int64_t at_a_time_ = 0;
};

// A borrowed callable void(int worker, Chunks&).
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

// The number of workers of a run: DMLGRAPH_THREADS, or the number of the process's processors.
int default_threads();

// Whether a helper that is woken is kept off the caller's processor (`Placement::keep_off`). It is, except while
// benchmarks/cpu_waking.py measures what that is worth.
void keep_helpers_off(bool on);

// The helpers of this process, for a library that has a copy of this code from the same build: after `use_helpers`,
// before its first job, it has no others.
void* helpers();
void use_helpers(void* helpers);

// Runs the task on up to `workers` threads over `count` pieces, and returns when all are done; the calling thread is
// worker 0. Several threads may call it at the same time, and tasks may: one of them gets the helpers, the others work
// alone. Without `wake`, only helpers that are still awake take part. When `stop` is true, pieces that no worker has
// begun are left out; a worker begins at most `most` at a time. They are left out, too, after a worker has thrown an
// exception; the first one is thrown to the caller.
void run_parallel(std::int64_t count, int workers, ParallelTask task, bool wake = true,
                  const std::atomic<bool>* stop = nullptr, std::int64_t most = all_pieces);

}  // namespace dmlgraph::cpu
