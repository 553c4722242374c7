#include "software_adapter/fence.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "software_adapter/calls.h"
#include "software_adapter/counters.h"
#include "software_adapter/log.h"

namespace dmlgraph::software {
namespace {

// An eventfd of the caller, who may close it as soon as the fence has the value.
class Event {
public:
    explicit Event(HANDLE event) : descriptor_(dup(static_cast<int>(reinterpret_cast<intptr_t>(event)))) {}
    ~Event() { close(descriptor_); }
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;

    void set() const {
        const uint64_t one = 1;
        if (write(descriptor_, &one, sizeof one) != sizeof one) {
            log(std::string("setting an event of a fence: ") + std::strerror(errno));
        }
    }

private:
    const int descriptor_;
};

}  // namespace

void Landings::add(uint64_t value, const Flights& flights) {
    const std::lock_guard lock(mutex_);
    flights_.emplace_back(value, flights);
}

Flights Landings::until(uint64_t value) const {
    const std::lock_guard lock(mutex_);
    Flights result;
    for (const auto& [reached_at, flights] : flights_) {
        if (reached_at <= value) {
            result.insert(result.end(), flights.begin(), flights.end());
        }
    }
    return result;
}

void Landings::observe(uint64_t value) {
    for (const auto& flight : until(value)) {
        flight->has_landed = true;
    }
    const std::lock_guard lock(mutex_);
    std::erase_if(flights_, [&](const auto& entry) { return entry.first <= value; });
}

uint64_t Fence::GetCompletedValue() {
    const uint64_t value = device_state().removed() ? UINT64_MAX : value_.load();
    landings_->observe(value);
    return value;
}

HRESULT Fence::SetEventOnCompletion(uint64_t value, HANDLE event) {
    static Calls calls;
    ++counters.waits;
    if (calls.next(device_state().adapter) == device_state().strict.fail_event) {
        return E_OUTOFMEMORY;
    }
    if (const HRESULT fault = device_state().fault(); failed(fault)) {
        return fault;
    }
    if (!event) {
        timeline().wait(value_, value);
        landings_->observe(value);
        return S_OK;
    }
    const auto reached = [own = std::make_shared<Event>(event), value, landings = landings_] {
        landings->observe(value);
        own->set();
    };
    if (!timeline().when_reached(value_, value, reached)) {
        reached();
    }
    return S_OK;
}

HRESULT Fence::Signal(uint64_t value) {
    if (device_state().removed()) {
        return DXGI_ERROR_DEVICE_REMOVED;
    }
    timeline().signal(value_, value);
    return S_OK;
}

}  // namespace dmlgraph::software
