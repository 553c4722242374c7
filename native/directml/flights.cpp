#include "directml/flights.h"

#include <utility>

namespace dmlgraph {

Flights::Flight Flights::begin(Place place) {
    std::unique_lock lock(mutex_);
    Recorded recorded;
    if (!unused_.empty()) {
        recorded = std::move(unused_.back());
        unused_.pop_back();
    }
    while (true) {
        const std::size_t others = count_;
        try {
            BufferPool::Lease lease = member_.lease(recorded.leased, place);
            recorded.leased = lease.ids();
            unused_.reserve(unused_.size() + others + 1);  // for when they end
            ++count_;
            return {*this, std::move(recorded), std::move(lease)};
        } catch (const Error& error) {
            if (error.code != abi::E_OUTOFMEMORY || others == 0) {
                throw;
            }
        }
        ended_.wait(lock, [&] { return count_ < others; });
    }
}

Flights::Flight::~Flight() {
    lease_.reset();
    {
        const std::lock_guard lock(flights_.mutex_);
        --flights_.count_;
        flights_.unused_.push_back(std::move(recorded_));
    }
    flights_.ended_.notify_all();
}

}  // namespace dmlgraph
