#include "directml/recording.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "directml/names.h"

namespace dmlgraph {
namespace {

using namespace abi;

constexpr auto list_type = D3D12_COMMAND_LIST_TYPE_COMPUTE;
constexpr std::uint32_t timestamps = 2;  // at the begin and the end

// An event's metadata says how its text is encoded: PIX_EVENT_UNICODE_VERSION.
constexpr std::uint32_t event_text = 0;

}  // namespace

Dispatch::Dispatch(Device& device, IDMLDispatchable& dispatchable, const std::string& what, Place place)
    : device_(device), dispatchable_(dispatchable) {
    // A heap has at least one descriptor; a table may have none.
    const std::uint32_t count = std::max(1u, dispatchable.GetBindingProperties().RequiredDescriptorCount);
    D3D12_DESCRIPTOR_HEAP_DESC heap{};
    heap.Type = D3D12_DESCRIPTOR_HEAP_TYPE_CBV_SRV_UAV;
    heap.NumDescriptors = count;
    heap.Flags = D3D12_DESCRIPTOR_HEAP_FLAG_SHADER_VISIBLE;
    device.check(device.d3d12().CreateDescriptorHeap(&heap, ID3D12DescriptorHeap::iid, heap_.put()),
                 "CreateDescriptorHeap", place);
    set_name(*heap_, what);

    DML_BINDING_TABLE_DESC table{};
    table.Dispatchable = &dispatchable;
    table.CPUDescriptorHandle = heap_->GetCPUDescriptorHandleForHeapStart().ptr;
    table.GPUDescriptorHandle = heap_->GetGPUDescriptorHandleForHeapStart().ptr;
    table.SizeInDescriptors = count;
    device.check(device.directml().CreateBindingTable(&table, IDMLBindingTable::iid, table_.put()),
                 "CreateBindingTable", place);
    set_name(*table_, what);
}

void Dispatch::record(ID3D12GraphicsCommandList& list) const {
    ID3D12DescriptorHeap* heaps[] = {heap_.get()};
    list.SetDescriptorHeaps(1, heaps);
    device_.recorder().RecordDispatch(&list, &dispatchable_, table_.get());
}

ID3D12GraphicsCommandList& CommandLists::open() {
    if (!allocator_) {
        device_.check(device_.d3d12().CreateCommandAllocator(list_type, ID3D12CommandAllocator::iid, allocator_.put()),
                      "CreateCommandAllocator", place_);
        set_name(*allocator_, what_);
    }
    if (count_ < lists_.size()) {
        device_.check(lists_[count_]->Reset(allocator_.get(), nullptr), "ID3D12GraphicsCommandList::Reset", place_);
    } else {
        ComPtr<ID3D12GraphicsCommandList> list;
        device_.check(device_.d3d12().CreateCommandList(0, list_type, allocator_.get(), nullptr,
                                                        ID3D12GraphicsCommandList::iid, list.put()),
                      "CreateCommandList", place_);
        set_name(*list, what_);
        lists_.push_back(std::move(list));
    }
    ID3D12GraphicsCommandList& list = *lists_[count_];
    const std::wstring event = wide(what_);
    list.BeginEvent(event_text, event.c_str(), static_cast<std::uint32_t>((event.size() + 1) * sizeof(wchar_t)));
    return list;
}

void CommandLists::close() {
    ID3D12GraphicsCommandList& list = *lists_[count_];
    list.EndEvent();
    device_.check(list.Close(), "ID3D12GraphicsCommandList::Close", place_);
    device_.check(device_.directml().GetDeviceRemovedReason(), "IDMLCommandRecorder::RecordDispatch", place_);
    ++count_;
}

void CommandLists::restart() {
    if (allocator_) {
        device_.check(allocator_->Reset(), "ID3D12CommandAllocator::Reset", place_);
    }
    count_ = 0;
}

Timestamps::Timestamps(Device& device, const std::string& what, Place place) : device_(device), place_(place) {
    const D3D12_QUERY_HEAP_DESC queries{D3D12_QUERY_HEAP_TYPE_TIMESTAMP, timestamps, 0};
    device.check(device.d3d12().CreateQueryHeap(&queries, ID3D12QueryHeap::iid, queries_.put()), "CreateQueryHeap",
                 place);
    set_name(*queries_, what);
    times_ = device.memory().create(BufferKind::readback, timestamps * sizeof(std::uint64_t),
                                    "the timestamps of " + what, place);
}

void Timestamps::begin(ID3D12GraphicsCommandList& list) const {
    list.EndQuery(queries_.get(), D3D12_QUERY_TYPE_TIMESTAMP, 0);
}

void Timestamps::end(ID3D12GraphicsCommandList& list) const {
    list.EndQuery(queries_.get(), D3D12_QUERY_TYPE_TIMESTAMP, 1);
    list.ResolveQueryData(queries_.get(), D3D12_QUERY_TYPE_TIMESTAMP, 0, timestamps, &times_->resource(), 0);
}

double Timestamps::seconds() const {
    std::array<std::uint64_t, timestamps> ticks{};
    times_->read(device_, 0, ticks.data(), sizeof ticks, place_);
    return static_cast<double>(ticks[1] - ticks[0]) / static_cast<double>(device_.ticks_per_second(place_));
}

D3D12_RESOURCE_BARRIER transition(const Buffer& buffer, D3D12_RESOURCE_STATES before, D3D12_RESOURCE_STATES after) {
    D3D12_RESOURCE_BARRIER barrier{};
    barrier.Type = D3D12_RESOURCE_BARRIER_TYPE_TRANSITION;
    barrier.Transition = {&buffer.resource(), all_subresources, before, after};
    return barrier;
}

D3D12_RESOURCE_BARRIER after_dispatches() {
    D3D12_RESOURCE_BARRIER barrier{};
    barrier.Type = D3D12_RESOURCE_BARRIER_TYPE_UAV;
    barrier.UAV = {nullptr};
    return barrier;
}

void record_barriers(ID3D12GraphicsCommandList& list, const std::vector<D3D12_RESOURCE_BARRIER>& barriers) {
    if (!barriers.empty()) {
        list.ResourceBarrier(static_cast<std::uint32_t>(barriers.size()), barriers.data());
    }
}

void activate(ID3D12GraphicsCommandList& list, const Buffer& buffer) {
    if (buffer.kind() == BufferKind::device || buffer.kind() == BufferKind::shared) {
        D3D12_RESOURCE_BARRIER barrier{};
        barrier.Type = D3D12_RESOURCE_BARRIER_TYPE_ALIASING;
        barrier.Aliasing = {nullptr, &buffer.resource()};
        list.ResourceBarrier(1, &barrier);
    }
}

}  // namespace dmlgraph
