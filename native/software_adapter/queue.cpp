#include "software_adapter/queue.h"

#include <chrono>
#include <thread>
#include <utility>

#include "software_adapter/calls.h"
#include "software_adapter/command_list.h"
#include "software_adapter/counters.h"

namespace dmlgraph::software {
namespace {

constexpr uint64_t timestamps_per_second = 1'000'000'000;

// How long an asynchronous queue waits before it runs its work.
constexpr std::chrono::milliseconds delay{20};

}  // namespace

void CommandQueue::ExecuteCommandLists(uint32_t count, ID3D12CommandList* const* lists) {
    static Calls executions;
    ++counters.submissions;
    const auto execution = executions.next(device_state().adapter);
    if (execution == device_state().strict.remove_at) {
        device_state().remove(DXGI_ERROR_DEVICE_HUNG, "remove_at asks for it");
    }
    device_state().fault();  // only the loss of the device matters
    if (execution == device_state().strict.hang_at) {
        submit(WaitWork{ComPtr<Fence>::attach(new Fence(owner(), 0)), 1});
    }
    const auto flight = check({lists, count});
    for (uint32_t i = 0; i < count; ++i) {
        auto commands = static_cast<CommandList*>(lists[i])->commands();
        if (!commands) {
            device_state().remove(DXGI_ERROR_INVALID_CALL, "executing a command list that is not closed");
            return;
        }
        auto* noted = device_state().progress.begin(static_cast<CommandList*>(lists[i])->live()->name(), live()->name(),
                                                    *commands);
        submit(ExecuteWork{std::move(commands), noted, flight});
    }
}

std::shared_ptr<Flight> CommandQueue::check(std::span<ID3D12CommandList* const> lists) {
    const Validation* const validation = device_state().validation.get();
    if (!validation || device_state().removed()) {
        return nullptr;
    }
    ResourceStates states(ResourceStates::Time::executing, [&](uint64_t number) { return validation->find(number); });
    auto flight = std::make_shared<Flight>();
    std::string what;
    try {
        for (ID3D12CommandList* each : lists) {
            auto& list = static_cast<CommandList&>(*each);
            what = "executing " + list.live()->describe() + ": ";
            list.check_allocator();
            states.follow(list.steps(), list.GetType());
            list.add_flight(flight);
        }
    } catch (const Refusal& refusal) {
        device_state().remove(DXGI_ERROR_INVALID_CALL, what + refusal.what());
        return nullptr;
    }
    for (const LiveRef& object : states.objects()) {
        object->add_flight(flight);
    }
    return flight;
}

HRESULT CommandQueue::Signal(ID3D12Fence* fence, uint64_t value) {
    if (!fence) {
        return E_INVALIDARG;
    }
    if (device_state().removed()) {
        return DXGI_ERROR_DEVICE_REMOVED;
    }
    static Calls signals;
    const auto& strict = device_state().strict;
    const auto call = signals.next(device_state().adapter);
    if (call == strict.fail_signal || (strict.fail_signals_from && call >= strict.fail_signals_from)) {
        return E_OUTOFMEMORY;
    }
    if (const HRESULT fault = device_state().fault(); failed(fault)) {
        return fault;
    }
    submit(SignalWork{ComPtr(static_cast<Fence*>(fence)), value});
    return S_OK;
}

HRESULT CommandQueue::Wait(ID3D12Fence* fence, uint64_t value) {
    if (!fence) {
        return E_INVALIDARG;
    }
    if (device_state().removed()) {
        return DXGI_ERROR_DEVICE_REMOVED;
    }
    submit(WaitWork{ComPtr(static_cast<Fence*>(fence)), value});
    return S_OK;
}

HRESULT CommandQueue::GetTimestampFrequency(uint64_t* frequency) {
    if (!frequency) {
        return E_INVALIDARG;
    }
    *frequency = timestamps_per_second;
    return S_OK;
}

HRESULT CommandQueue::GetClockCalibration(uint64_t* gpu_timestamp, uint64_t* cpu_timestamp) {
    if (!gpu_timestamp || !cpu_timestamp) {
        return E_INVALIDARG;
    }
    *gpu_timestamp = *cpu_timestamp = timestamp_now();  // one clock for both
    return S_OK;
}

void CommandQueue::submit(Work work) {
    {
        const std::lock_guard lock(mutex_);
        pending_.push_back(std::move(work));
        if (std::exchange(running_, true)) {
            return;
        }
    }
    if (device_state().strict.async) {
        std::thread([queue = ComPtr(this)] {
            std::this_thread::sleep_for(delay);
            queue->run_pending();
        }).detach();
        return;
    }
    run_pending();
}

void CommandQueue::run_pending() {
    while (true) {
        std::unique_lock lock(mutex_);
        if (pending_.empty()) {
            running_ = false;
            return;
        }
        const Work work = std::move(pending_.front());
        pending_.pop_front();
        lock.unlock();
        if (!std::visit([this](const auto& each) { return run(each); }, work)) {
            return;
        }
    }
}

bool CommandQueue::run(const ExecuteWork& work) {
    ++counters.command_lists;
    if (work.flight) {
        join({work.flight});
    }
    if (!device_state().removed()) {
        device_state().spoil_mappings(*work.commands);
        software::run(*work.commands, work.noted ? &work.noted->done : nullptr);
    }
    if (work.noted && !device_state().removed()) {
        device_state().progress.end(work.noted);
    }
    return true;
}

void CommandQueue::join(Flights flights) {
    std::erase_if(flights_, [](const auto& each) { return each->has_landed.load(); });
    flights_.insert(flights_.end(), flights.begin(), flights.end());
}

bool CommandQueue::run(const SignalWork& work) {
    if (device_state().validation) {
        work.fence->landings().add(work.value, flights_);
    }
    device_state().timeline.signal(work.fence->value(), work.value);
    return true;
}

bool CommandQueue::run(const WaitWork& work) {
    // The fence must outlive the wait, and so must the queue.
    auto wake = [queue = ComPtr(this), work] {
        queue->join(work.fence->landings().until(work.value));
        queue->run_pending();
    };
    if (device_state().timeline.when_reached(work.fence->value(), work.value, std::move(wake))) {
        return false;
    }
    join(work.fence->landings().until(work.value));
    return true;
}

}  // namespace dmlgraph::software
