// What is submitted to a device: command lists, and dispatches of DirectML with their bindings.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "directml/device.h"

namespace dmlgraph {

// A dispatch of DirectML: what it reads and writes, in descriptors of its own.
class Dispatch {
public:
    Dispatch(Device& device, abi::IDMLDispatchable& dispatchable, const std::string& what, Place place);

    abi::IDMLBindingTable& table() const { return *table_; }
    void record(abi::ID3D12GraphicsCommandList& list) const;

private:
    Device& device_;
    abi::IDMLDispatchable& dispatchable_;
    abi::ComPtr<abi::ID3D12DescriptorHeap> heap_;
    abi::ComPtr<abi::IDMLBindingTable> table_;
};

// Command lists that are recorded one after another, and may then be submitted together, again and again.
class CommandLists {
public:
    // `what` names the lists and the event around their commands, which PIX and other debuggers show.
    CommandLists(Device& device, std::string what, Place place)
        : device_(device), what_(std::move(what)), place_(place) {}

    // Opens the next list: a new one, or after restart() one that there is. Throws Error.
    abi::ID3D12GraphicsCommandList& open();
    // Closes it. Throws Error if something recorded is wrong: DirectML tells of it by removing the device.
    void close();

    // How many are recorded.
    std::size_t count() const { return count_; }
    abi::ID3D12CommandList& operator[](std::size_t index) const { return *lists_[index]; }

    // Forgets all commands; the adapter must have finished them. Throws Error.
    void restart();

private:
    Device& device_;
    std::string what_;
    Place place_;
    abi::ComPtr<abi::ID3D12CommandAllocator> allocator_;
    std::vector<abi::ComPtr<abi::ID3D12GraphicsCommandList>> lists_;
    std::size_t count_ = 0;
};

// The times at which the adapter begins and ends what is recorded between two calls.
class Timestamps {
public:
    Timestamps(Device& device, const std::string& what, Place place);

    void begin(abi::ID3D12GraphicsCommandList& list) const;
    void end(abi::ID3D12GraphicsCommandList& list) const;
    // How long it took the last time. Throws Error.
    double seconds() const;

private:
    Device& device_;
    Place place_;
    abi::ComPtr<abi::ID3D12QueryHeap> queries_;
    std::shared_ptr<Buffer> times_;  // in ticks of the queue
};

abi::D3D12_RESOURCE_BARRIER transition(const Buffer& buffer, abi::D3D12_RESOURCE_STATES before,
                                       abi::D3D12_RESOURCE_STATES after);

// What follows sees what all dispatches before it wrote.
abi::D3D12_RESOURCE_BARRIER after_dispatches();

void record_barriers(abi::ID3D12GraphicsCommandList& list, const std::vector<abi::D3D12_RESOURCE_BARRIER>& barriers);

// A place in a heap may have had another buffer before: a buffer in the adapter's memory begins its use here.
void activate(abi::ID3D12GraphicsCommandList& list, const Buffer& buffer);

}  // namespace dmlgraph
