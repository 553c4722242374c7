#include "directml/tensor_memory.h"

#include <algorithm>
#include <array>

#include "directml/recording.h"

namespace dmlgraph {
namespace {

using namespace abi;

// Indexed by Access.
constexpr std::array bound_kinds{BufferKind::device, BufferKind::shared, BufferKind::upload, BufferKind::device};

constexpr std::array<std::byte, 4> zeros{};

}  // namespace

TensorMemory::TensorMemory(Direction direction, Access access, std::span<const std::uint64_t> tensor_bytes,
                           const std::string& what, std::vector<BufferNeed>& needs)
    : direction_(direction), access_(access) {
    std::vector<std::uint64_t> placed_bytes(tensor_bytes.begin(), tensor_bytes.end());
    std::erase(placed_bytes, 0);
    const MemoryPlan plan = plan_memory(placed_bytes, max_buffer_bytes);
    auto next = plan.tensors.begin();
    for (const std::uint64_t bytes : tensor_bytes) {
        tensors_.push_back(bytes ? *next++ : TensorPlace{});
    }
    for (const std::uint64_t bytes : plan.buffers) {
        Placed placed{needs.size(), needs.size()};
        needs.push_back({bound_kinds[static_cast<std::size_t>(access)], bytes, what});
        if (is_staged()) {
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

void TensorMemory::read(Device& device, const BufferPool::Lease& lease, std::size_t tensor, std::span<std::byte> bytes,
                        Place place) const {
    const TensorPlace& at = tensors_[tensor];
    lease[buffers_[at.buffer].staging].read(device, at.offset, bytes.data(), bytes.size(), place);
}

bool TensorMemory::is_used(const Used& used, std::size_t buffer) const {
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
        if (used[i] && tensors_[i].buffer == buffer) {
            return true;
        }
    }
    return false;
}

void TensorMemory::transition(Barriers& barriers, const BufferPool::Lease& lease, const Used& used,
                              D3D12_RESOURCE_STATES before, D3D12_RESOURCE_STATES after) const {
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
        if (is_used(used, i)) {
            barriers.push_back(dmlgraph::transition(lease[buffers_[i].buffer], before, after));
        }
    }
}

void TensorMemory::record_copies(ID3D12GraphicsCommandList& list, const BufferPool::Lease& lease,
                                 const Used& used) const {
    if (!is_staged()) {
        return;
    }
    for (std::size_t first = 0, last = 0; first < tensors_.size(); first = last + 1) {
        // Neighbours in a buffer are copied together, with the gaps between them.
        for (last = first; used[first] && last + 1 < tensors_.size() && used[last + 1] &&
                           tensors_[last + 1].buffer == tensors_[first].buffer;) {
            ++last;
        }
        if (!used[first]) {
            continue;
        }
        const Placed& placed = buffers_[tensors_[first].buffer];
        ID3D12Resource& buffer = lease[placed.buffer].resource();
        ID3D12Resource& staging = lease[placed.staging].resource();
        const std::uint64_t begin = tensors_[first].offset;
        const std::uint64_t bytes = tensors_[last].offset + tensors_[last].bytes - begin;
        if (direction_ == Direction::upload) {
            list.CopyBufferRegion(&buffer, begin, &staging, begin, bytes);
        } else {
            list.CopyBufferRegion(&staging, begin, &buffer, begin, bytes);
        }
    }
}

}  // namespace dmlgraph
