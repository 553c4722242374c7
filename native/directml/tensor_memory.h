// The inputs or the outputs of a graph in leased buffers: what DirectML binds, and how the processor's bytes get there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "directml/buffer_pool.h"
#include "directml/device.h"
#include "directml/memory_plan.h"

namespace dmlgraph {

enum class Direction { upload, readback };

// The memory that DirectML binds, and how the processor reaches it.
enum class Access {
    staged,  // the adapter's memory, through a staging buffer of the same layout
    shared,  // memory that both share: nothing is copied between buffers
    upload,  // upload memory, which initialisation reads once
    device,  // the adapter's memory, which the processor does not reach
};

using Barriers = std::vector<abi::D3D12_RESOURCE_BARRIER>;

// The places of tensors in the buffers of a lease. A tensor of 0 bytes has no place: it lies elsewhere.
class TensorMemory {
public:
    // Which tensors a run has here.
    using Used = std::vector<bool>;

    // Appends the buffers that the tensors take to `needs`.
    TensorMemory(Direction direction, Access access, std::span<const std::uint64_t> tensor_bytes,
                 const std::string& what, std::vector<BufferNeed>& needs);

    bool is_staged() const { return access_ == Access::staged; }

    abi::DML_BUFFER_BINDING binding(const BufferPool::Lease& lease, std::size_t tensor) const;

    // Copies a tensor from or to the processor's memory. At the end of a tensor, up to three bytes that belong to no
    // element may be missing: they are written as zeros, or not read. Throws Error (call).
    void write(Device& device, const BufferPool::Lease& lease, std::size_t tensor, std::span<const std::byte> bytes,
               Place place) const;
    void read(Device& device, const BufferPool::Lease& lease, std::size_t tensor, std::span<std::byte> bytes,
              Place place) const;

    // Appends a transition of every bound buffer that has a used tensor.
    void transition(Barriers& barriers, const BufferPool::Lease& lease, const Used& used,
                    abi::D3D12_RESOURCE_STATES before, abi::D3D12_RESOURCE_STATES after) const;

    // Records the copies of used tensors between the bound buffers and their staging, if they are staged.
    void record_copies(abi::ID3D12GraphicsCommandList& list, const BufferPool::Lease& lease, const Used& used) const;

private:
    // Places in the lease.
    struct Placed {
        std::size_t buffer;
        std::size_t staging;  // the same as `buffer` if nothing is staged
    };

    bool is_used(const Used& used, std::size_t buffer) const;

    Direction direction_;
    Access access_;
    std::vector<TensorPlace> tensors_;
    std::vector<Placed> buffers_;
};

}  // namespace dmlgraph
