#include "directml/recording.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "directml/names.h"

namespace dmlgraph {
namespace {

using namespace abi;

constexpr std::uint32_t timestamps = 2;  // at the begin and the end

// An event's metadata says how its text is encoded: PIX_EVENT_UNICODE_VERSION.
constexpr std::uint32_t event_text = 0;

}  // namespace

Recording::Recording(Device& device, IDMLDispatchable& dispatchable, const std::string& what, bool timed, Place place)
    : device_(device), dispatchable_(dispatchable), place_(place) {
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

    constexpr auto type = D3D12_COMMAND_LIST_TYPE_COMPUTE;
    device.check(device.d3d12().CreateCommandAllocator(type, ID3D12CommandAllocator::iid, allocator_.put()),
                 "CreateCommandAllocator", place);
    set_name(*allocator_, what);
    device.check(device.d3d12().CreateCommandList(0, type, allocator_.get(), nullptr, ID3D12GraphicsCommandList::iid,
                                                  list_.put()),
                 "CreateCommandList", place);
    set_name(*list_, what);
    const std::wstring event = wide(what);
    list_->BeginEvent(event_text, event.c_str(), static_cast<std::uint32_t>((event.size() + 1) * sizeof(wchar_t)));

    if (timed) {
        const D3D12_QUERY_HEAP_DESC queries{D3D12_QUERY_HEAP_TYPE_TIMESTAMP, timestamps, 0};
        device.check(device.d3d12().CreateQueryHeap(&queries, ID3D12QueryHeap::iid, queries_.put()),
                     "CreateQueryHeap", place);
        set_name(*queries_, what);
        times_ = device.memory().create(BufferKind::readback, timestamps * sizeof(std::uint64_t),
                                        "the timestamps of " + what, place);
    }
}

void Recording::activate(const Buffer& buffer) {
    if (buffer.kind() == BufferKind::device || buffer.kind() == BufferKind::shared) {
        D3D12_RESOURCE_BARRIER barrier{};
        barrier.Type = D3D12_RESOURCE_BARRIER_TYPE_ALIASING;
        barrier.Aliasing = {nullptr, &buffer.resource()};
        list_->ResourceBarrier(1, &barrier);
    }
}

void Recording::dispatch() {
    ID3D12DescriptorHeap* heaps[] = {heap_.get()};
    list_->SetDescriptorHeaps(1, heaps);
    if (queries_) {
        list_->EndQuery(queries_.get(), D3D12_QUERY_TYPE_TIMESTAMP, 0);
    }
    device_.recorder().RecordDispatch(list_.get(), &dispatchable_, table_.get());
    if (queries_) {
        list_->EndQuery(queries_.get(), D3D12_QUERY_TYPE_TIMESTAMP, 1);
        list_->ResolveQueryData(queries_.get(), D3D12_QUERY_TYPE_TIMESTAMP, 0, timestamps, &times_->resource(), 0);
    }
}

void Recording::close() {
    list_->EndEvent();
    device_.check(list_->Close(), "ID3D12GraphicsCommandList::Close", place_);
    device_.check(device_.directml().GetDeviceRemovedReason(), "IDMLCommandRecorder::RecordDispatch", place_);
}

std::optional<double> Recording::seconds() const {
    if (!queries_) {
        return std::nullopt;
    }
    std::array<std::uint64_t, timestamps> ticks{};
    times_->read(device_, 0, ticks.data(), sizeof ticks, place_);
    return static_cast<double>(ticks[1] - ticks[0]) / static_cast<double>(device_.ticks_per_second(place_));
}

}  // namespace dmlgraph
