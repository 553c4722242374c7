// Memory for the inputs or the outputs of a graph: the buffers that DirectML binds, and the processor's views of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "directml/device.h"
#include "directml/memory_plan.h"

namespace dmlgraph {

enum class Direction { upload, readback };

// Each buffer has a permanently mapped staging buffer of the same layout; if processor and adapter share
// memory, it is the buffer itself and nothing is copied.
class TensorMemory {
public:
    TensorMemory(Device& device, Direction direction, std::span<const std::uint64_t> tensor_bytes,
                 std::string_view what, Place place);

    abi::DML_BUFFER_BINDING binding(std::size_t tensor) const;

    // The processor's view of a tensor. Upload memory should only be written: reading it can be very slow.
    std::span<std::byte> host(std::size_t tensor) const;

    // Records the copies from the staging buffers (before the tensors are used) or to them (afterwards).
    void record_copies(abi::ID3D12GraphicsCommandList& list) const;

private:
    struct Buffer {
        std::uint64_t bytes;
        abi::ComPtr<abi::ID3D12Resource> resource;
        abi::ComPtr<abi::ID3D12Resource> staging;  // null if memory is shared
        std::byte* mapped;
    };

    Direction direction_;
    std::vector<TensorPlace> tensors_;
    std::vector<Buffer> buffers_;
};

}  // namespace dmlgraph
