#include "directml/tensor_memory.h"

#include <array>

namespace dmlgraph {
namespace {

using namespace abi;

D3D12_RESOURCE_BARRIER transition(ID3D12Resource& resource, D3D12_RESOURCE_STATES before,
                                  D3D12_RESOURCE_STATES after) {
    D3D12_RESOURCE_BARRIER barrier{};
    barrier.Type = D3D12_RESOURCE_BARRIER_TYPE_TRANSITION;
    barrier.Transition = {&resource, all_subresources, before, after};
    return barrier;
}

// Indexed by Access.
constexpr std::array bound_kinds{BufferKind::device, BufferKind::shared, BufferKind::upload};

constexpr std::array<std::byte, 4> zeros{};

}  // namespace

TensorMemory::TensorMemory(Direction direction, Access access, std::span<const std::uint64_t> tensor_bytes,
                           const std::string& what, std::vector<BufferNeed>& needs)
    : direction_(direction) {
    MemoryPlan plan = plan_memory(tensor_bytes, max_buffer_bytes);
    tensors_ = std::move(plan.tensors);
    for (const std::uint64_t bytes : plan.buffers) {
        Placed placed{bytes, needs.size(), needs.size()};
        needs.push_back({bound_kinds[static_cast<std::size_t>(access)], bytes, what});
        if (access == Access::staged) {
            placed.staging = needs.size();
            const auto kind = direction == Direction::upload ? BufferKind::upload : BufferKind::readback;
            needs.push_back({kind, bytes, "staging of " + what});
        }
        buffers_.push_back(placed);
    }
}

DML_BUFFER_BINDING TensorMemory::binding(const BufferPool::Lease& lease, std::size_t tensor) const {
    const TensorPlace& place = tensors_[tensor];
    return {&lease[buffers_[place.buffer].buffer].resource(), place.offset, place.bytes};
}

void TensorMemory::write(Device& device, const BufferPool::Lease& lease, std::size_t tensor,
                         std::span<const std::byte> bytes, Place place) const {
    const TensorPlace& at = tensors_[tensor];
    const Buffer& staging = lease[buffers_[at.buffer].staging];
    staging.write(device, at.offset, bytes.data(), bytes.size(), place);
    if (bytes.size() < at.bytes) {
        staging.write(device, at.offset + bytes.size(), zeros.data(), at.bytes - bytes.size(), place);
    }
}

void TensorMemory::read(Device& device, const BufferPool::Lease& lease, std::size_t tensor,
                        std::span<std::byte> bytes, Place place) const {
    const TensorPlace& at = tensors_[tensor];
    lease[buffers_[at.buffer].staging].read(device, at.offset, bytes.data(), bytes.size(), place);
}

void TensorMemory::record_copies(ID3D12GraphicsCommandList& list, const BufferPool::Lease& lease) const {
    for (const Placed& placed : buffers_) {
        if (placed.staging == placed.buffer) {
            continue;
        }
        ID3D12Resource& buffer = lease[placed.buffer].resource();
        ID3D12Resource& staging = lease[placed.staging].resource();
        if (direction_ == Direction::upload) {
            list.CopyBufferRegion(&buffer, 0, &staging, 0, placed.bytes);
            const auto barrier =
                transition(buffer, D3D12_RESOURCE_STATE_COPY_DEST, D3D12_RESOURCE_STATE_UNORDERED_ACCESS);
            list.ResourceBarrier(1, &barrier);
        } else {
            const auto barrier =
                transition(buffer, D3D12_RESOURCE_STATE_UNORDERED_ACCESS, D3D12_RESOURCE_STATE_COPY_SOURCE);
            list.ResourceBarrier(1, &barrier);
            list.CopyBufferRegion(&staging, 0, &buffer, 0, placed.bytes);
        }
    }
}

}  // namespace dmlgraph
