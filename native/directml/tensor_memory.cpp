#include "directml/tensor_memory.h"

namespace dmlgraph {
namespace {

using namespace abi;

D3D12_RESOURCE_BARRIER transition(ID3D12Resource* resource, D3D12_RESOURCE_STATES before,
                                  D3D12_RESOURCE_STATES after) {
    D3D12_RESOURCE_BARRIER barrier{};
    barrier.Type = D3D12_RESOURCE_BARRIER_TYPE_TRANSITION;
    barrier.Transition = {resource, all_subresources, before, after};
    return barrier;
}

}  // namespace

TensorMemory::TensorMemory(Device& device, Direction direction, std::span<const std::uint64_t> tensor_bytes,
                           std::string_view what, Place place)
    : direction_(direction) {
    MemoryPlan plan = plan_memory(tensor_bytes, max_buffer_bytes);
    tensors_ = std::move(plan.tensors);
    for (const std::uint64_t bytes : plan.buffers) {
        Buffer buffer{bytes, {}, {}, nullptr};
        if (device.shares_memory()) {
            buffer.resource = device.create_buffer(BufferKind::shared, bytes, what, place);
        } else {
            const auto staging = direction == Direction::upload ? BufferKind::upload : BufferKind::readback;
            buffer.resource = device.create_buffer(BufferKind::device, bytes, what, place);
            buffer.staging = device.create_buffer(staging, bytes, what, place);
        }
        void* mapped = nullptr;
        device.check((buffer.staging ? buffer.staging : buffer.resource)->Map(0, nullptr, &mapped),
                     "ID3D12Resource::Map", place);
        buffer.mapped = static_cast<std::byte*>(mapped);
        buffers_.push_back(std::move(buffer));
    }
}

DML_BUFFER_BINDING TensorMemory::binding(std::size_t tensor) const {
    const TensorPlace& place = tensors_[tensor];
    return {buffers_[place.buffer].resource.get(), place.offset, place.bytes};
}

std::span<std::byte> TensorMemory::host(std::size_t tensor) const {
    const TensorPlace& place = tensors_[tensor];
    return {buffers_[place.buffer].mapped + place.offset, static_cast<std::size_t>(place.bytes)};
}

void TensorMemory::record_copies(ID3D12GraphicsCommandList& list) const {
    for (const Buffer& buffer : buffers_) {
        if (!buffer.staging) {
            continue;
        }
        if (direction_ == Direction::upload) {
            list.CopyBufferRegion(buffer.resource.get(), 0, buffer.staging.get(), 0, buffer.bytes);
            const auto barrier = transition(buffer.resource.get(), D3D12_RESOURCE_STATE_COPY_DEST,
                                            D3D12_RESOURCE_STATE_UNORDERED_ACCESS);
            list.ResourceBarrier(1, &barrier);
        } else {
            const auto barrier = transition(buffer.resource.get(), D3D12_RESOURCE_STATE_UNORDERED_ACCESS,
                                            D3D12_RESOURCE_STATE_COPY_SOURCE);
            list.ResourceBarrier(1, &barrier);
            list.CopyBufferRegion(buffer.staging.get(), 0, buffer.resource.get(), 0, buffer.bytes);
        }
    }
}

}  // namespace dmlgraph
