// Command queues.
//
// A queue does not have its own thread: the thread that submits work runs it, and everything that is submitted
// while it runs. This has the least overhead per command list, and callers wait for its end anyway. If the queue
// must wait for a fence, the submitter returns, and the thread that signals the fence continues the queue's work.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <variant>

#include "software_adapter/commands.h"
#include "software_adapter/fence.h"
#include "software_adapter/object.h"

namespace dmlgraph::software {

class CommandQueue final : public DeviceChild<ID3D12CommandQueue, ID3D12Pageable> {
public:
    CommandQueue(const DeviceOwner& owner, const D3D12_COMMAND_QUEUE_DESC& desc) : DeviceChild(owner), desc_(desc) {}

    void ExecuteCommandLists(uint32_t count, ID3D12CommandList* const* lists) override;
    HRESULT Signal(ID3D12Fence* fence, uint64_t value) override;
    HRESULT Wait(ID3D12Fence* fence, uint64_t value) override;
    HRESULT GetTimestampFrequency(uint64_t* frequency) override;
    HRESULT GetClockCalibration(uint64_t* gpu_timestamp, uint64_t* cpu_timestamp) override;
    D3D12_COMMAND_QUEUE_DESC GetDesc() override { return desc_; }

    // For profilers.
    void SetMarker(uint32_t, const void*, uint32_t) override {}
    void BeginEvent(uint32_t, const void*, uint32_t) override {}
    void EndEvent() override {}

private:
    struct ExecuteWork {
        std::shared_ptr<const Commands> commands;
        Progress::Entry* noted;          // null if nothing is noted
        std::shared_ptr<Flight> flight;  // null without validation
    };
    struct SignalWork {
        ComPtr<Fence> fence;
        uint64_t value;
    };
    struct WaitWork {
        ComPtr<Fence> fence;
        uint64_t value;
    };
    using Work = std::variant<ExecuteWork, SignalWork, WaitWork>;

    // Removes the device if the lists break a rule. Returns null then, and without validation.
    std::shared_ptr<Flight> check(std::span<ID3D12CommandList* const> lists);
    void submit(Work work);
    // Runs pending work until there is none, or until a fence is not reached. The caller must have set running_.
    void run_pending();
    // Each returns whether the queue can continue at once.
    bool run(const ExecuteWork& work);
    bool run(const SignalWork& work);
    bool run(const WaitWork& work);
    // What ends before this fence value also ends before the queue's later work.
    void join(Flights flights);

    D3D12_COMMAND_QUEUE_DESC desc_;
    std::mutex mutex_;
    std::deque<Work> pending_;
    Flights flights_;       // the work so far that may not have ended for the program; of the thread that runs
    bool running_ = false;  // a thread runs the work, or a fence will continue it
};

}  // namespace dmlgraph::software
