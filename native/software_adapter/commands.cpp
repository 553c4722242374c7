#include "software_adapter/commands.h"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <new>

#include "software_adapter/counters.h"
#include "software_adapter/parallel_for.h"
#include "software_adapter/pipeline.h"
#include "software_adapter/planted_fault.h"
#include "software_adapter/submission.h"

namespace dmlgraph::software {
namespace {

std::atomic<bool> dispatches_suppressed{false};

// A multiple of every element size.
constexpr uint64_t pattern_bytes = 48;
// Copies and fills are divided among the threads in pieces of this size.
constexpr uint64_t piece_bytes = 5120 * pattern_bytes;

// Scratch memory for group-shared variables; each thread has its own and reuses it.
void* group_shared_memory(uint64_t bytes) {
    constexpr auto alignment = std::align_val_t{64};
    struct Free {
        void operator()(std::byte* memory) const { ::operator delete[](memory, alignment); }
    };
    static thread_local std::unique_ptr<std::byte[], Free> memory;
    static thread_local uint64_t size = 0;
    if (bytes > size) {
        memory.reset(new (alignment) std::byte[bytes]);
        size = bytes;
    }
    return memory.get();
}

// Calls run(first, last) for ranges that cover first <= i < last. Work that can be cancelled is run in short
// pieces, until it is cancelled.
template <class Run>
void run_until_given_up(Submission& submission, uint64_t first, uint64_t last, const Run& run) {
    using Clock = std::chrono::steady_clock;
    constexpr auto moment = std::chrono::milliseconds(1);
    if (!submission.can_be_cancelled()) {
        run(first, last);
        return;
    }
    for (uint64_t size = 1; first < last && !submission.given_up();) {
        const uint64_t end = first + std::min(size, last - first);
        const auto start = Clock::now();
        run(first, end);
        first = end;
        if (Clock::now() - start < moment) {
            size *= 2;
        }
    }
}

// Calls piece(first, last) for ranges of bytes that cover 0 <= i < size.
template <class Piece>
void for_each_piece(uint64_t size, const Piece& piece) {
    parallel_for((size + piece_bytes - 1) / piece_bytes, [&](uint64_t first, uint64_t last) {
        piece(first * piece_bytes, std::min(last * piece_bytes, size));
    });
}

}  // namespace

void DispatchCommand::run() const {
    ++counters.dispatches;
    const uint64_t groups = uint64_t{grid[0]} * grid[1] * grid[2];
    if (groups == 0 || dispatches_suppressed) {
        return;
    }
    const SwKernel* kernel = pipeline->kernel(views.data());
    if (!kernel) {
        return;
    }
    auto* arguments =
        const_cast<SwView**>(views.data());  // the kernel's interface has no const; it does not write them
    Submission& submission = Submission::current();
    parallel_for(groups, [&](uint64_t first, uint64_t last) {
        void* const shared = group_shared_memory(kernel->shared_bytes);
        run_until_given_up(submission, first, last,
                           [&](uint64_t from, uint64_t to) { kernel->function(arguments, grid, from, to, shared); });
    });
    counters.thread_groups += groups;
}

void CopyCommand::run() const {
    counters.bytes_copied += size;
    const bool overlap = target < source + size && source < target + size;
    if (overlap) {
        std::memmove(target, source, size);
        return;
    }
    for_each_piece(size,
                   [&](uint64_t first, uint64_t last) { std::memcpy(target + first, source + first, last - first); });
}

void FillCommand::run() const {
    std::byte pattern[pattern_bytes];
    for (uint64_t i = 0; i < pattern_bytes; ++i) {
        pattern[i] = element[i % element_bytes];
    }
    const uint64_t size = count * element_bytes;
    counters.bytes_cleared += size;
    for_each_piece(size, [&](uint64_t first, uint64_t last) {
        for (uint64_t i = first; i < last; i += pattern_bytes) {
            std::memcpy(target + i, pattern, std::min(pattern_bytes, last - i));
        }
    });
}

void TimestampCommand::run() const { *target = timestamp_now(); }

void run(const Commands& commands, uint32_t* done) {
    Submission& submission = Submission::current();
    const auto faulty = FaultyList::begin();
    for (const auto& command : commands) {
        if (submission.given_up()) {
            return;
        }
        const auto* const dispatch = faulty ? std::get_if<DispatchCommand>(&command) : nullptr;
        if (dispatch) {
            faulty->run(*dispatch);
        } else {
            if (faulty) {
                faulty->settle();
            }
            std::visit([](const auto& each) { each.run(); }, command);
        }
        if (done) {
            ++*done;
        }
    }
}

std::vector<const char*> addresses_of(const Commands& commands) {
    std::vector<const char*> addresses;
    for (const auto& command : commands) {
        if (const auto* copy = std::get_if<CopyCommand>(&command)) {
            addresses.insert(addresses.end(), {copy->target, copy->source});
        } else if (const auto* fill = std::get_if<FillCommand>(&command)) {
            addresses.push_back(fill->target);
        } else if (const auto* dispatch = std::get_if<DispatchCommand>(&command)) {
            for (const SwView* view : dispatch->views) {
                addresses.push_back(view->data);
            }
        }
    }
    return addresses;
}

uint64_t timestamp_now() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace dmlgraph::software

void sw_suppress_dispatches(int on) { dmlgraph::software::dispatches_suppressed = on != 0; }
