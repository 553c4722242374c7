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
};

// The places of tensors in the buffers of a lease.
class TensorMemory {
public:
    // Appends the buffers that the tensors take to `needs`.
    TensorMemory(Direction direction, Access access, std::span<const std::uint64_t> tensor_bytes,
                 const std::string& what, std::vector<BufferNeed>& needs);

    abi::DML_BUFFER_BINDING binding(const BufferPool::Lease& lease, std::size_t tensor) const;

    // Copies a tensor from or to the processor's memory. At the end of a tensor, up to three bytes that belong to no
    // element may be missing: they are written as zeros, or not read. Throws Error (call).
    void write(Device& device, const BufferPool::Lease& lease, std::size_t tensor, std::span<const std::byte> bytes,
               Place place) const;
    void read(Device& device, const BufferPool::Lease& lease, std::size_t tensor, std::span<std::byte> bytes,
              Place place) const;

    // Records the copies from the staging buffers (before the tensors are used) or to them (afterwards).
    void record_copies(abi::ID3D12GraphicsCommandList& list, const BufferPool::Lease& lease) const;

private:
    // Places in the lease.
    struct Placed {
        std::uint64_t bytes;
        std::size_t buffer;
        std::size_t staging;  // the same as `buffer` if nothing is staged
    };

    Direction direction_;
    std::vector<TensorPlace> tensors_;
    std::vector<Placed> buffers_;
};

}  // namespace dmlgraph
