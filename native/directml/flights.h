// The runs of an executable that are in flight: each has its own buffers, and command lists recorded with them.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "directml/buffer_pool.h"
#include "directml/recording.h"

namespace dmlgraph {

// The descriptors of a dispatch, and the command lists that have it. It keeps no buffer: who submits the lists does.
struct Bound {
    Bound(Device& device, abi::IDMLCompiledOperator& compiled, const std::string& what, Place place)
        : dispatch(device, compiled, what, place),
          whole(device, what, place),
          steps(device, what, place),
          copies(device, what + ", copies", place) {}

    std::vector<std::uint64_t> ids{};  // of the buffers
    Dispatch dispatch;
    std::optional<Timestamps> times{};
    CommandLists whole;   // one list: a run of one step, but for the rows that it appends
    CommandLists steps;   // the dispatch alone, once for every step that may be submitted at a time
    CommandLists copies;  // recorded for every run
};

// Safe to use from several threads.
class Flights {
public:
    Flights(BufferPool& pool, std::vector<BufferNeed> needs) : member_(pool, std::move(needs)) {}

    // What was recorded for a run, for a later one with the same buffers.
    struct Recorded {
        std::vector<std::shared_ptr<Bound>> bound;  // the one that was used last is the last
        std::vector<std::uint64_t> leased;          // the buffers of the last run
    };

    // What a run has while it is in flight.
    class Flight {
    public:
        Flight(Flights& flights, Recorded recorded, BufferPool::Lease lease)
            : flights_(flights), recorded_(std::move(recorded)), lease_(std::move(lease)) {}
        ~Flight();
        Flight(const Flight&) = delete;
        Flight& operator=(const Flight&) = delete;

        const BufferPool::Lease& lease() const { return *lease_; }
        std::vector<std::shared_ptr<Bound>>& bound() { return recorded_.bound; }

    private:
        Flights& flights_;
        Recorded recorded_;
        std::optional<BufferPool::Lease> lease_;
    };

    // If there is no memory for one more run, waits until another one has ended. Throws Error as BufferPool::Member.
    Flight begin(Place place);

private:
    std::mutex mutex_;
    std::condition_variable ended_;
    std::size_t count_ = 0;         // of runs in flight
    std::vector<Recorded> unused_;  // the last one was used last
    BufferPool::Member member_;
};

}  // namespace dmlgraph
