// One dispatch of DirectML with its bindings, recorded in a command list that can be submitted again and again.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "directml/device.h"

namespace dmlgraph {

class Recording {
public:
    // Opens a list. `what` names its objects and the event around its commands, which PIX and other debuggers show.
    // If `timed`, the adapter notes when the dispatch begins and ends. Throws Error.
    Recording(Device& device, abi::IDMLDispatchable& dispatchable, const std::string& what, bool timed, Place place);

    abi::IDMLBindingTable& table() const { return *table_; }
    abi::ID3D12GraphicsCommandList& list() const { return *list_; }

    // A place in a heap may have had another buffer before: every buffer in the adapter's memory begins its use here.
    void activate(const Buffer& buffer);
    void dispatch();
    // Throws Error if something recorded is wrong: DirectML tells of it by removing the device.
    void close();

    // How long the last submitted dispatch took on the adapter; nothing if it is not timed. Throws Error.
    std::optional<double> seconds() const;

private:
    Device& device_;
    abi::IDMLDispatchable& dispatchable_;
    Place place_;
    abi::ComPtr<abi::ID3D12DescriptorHeap> heap_;
    abi::ComPtr<abi::IDMLBindingTable> table_;
    abi::ComPtr<abi::ID3D12CommandAllocator> allocator_;
    abi::ComPtr<abi::ID3D12GraphicsCommandList> list_;
    abi::ComPtr<abi::ID3D12QueryHeap> queries_;  // null if not timed
    std::shared_ptr<Buffer> times_;              // the two timestamps, in ticks of the queue
};

}  // namespace dmlgraph
