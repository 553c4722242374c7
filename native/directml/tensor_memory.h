// Memory for the tensors of one side of a graph: what DirectML binds, and how the processor gets at it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "directml/device.h"
#include "directml/memory_plan.h"

namespace dmlgraph {

enum class Direction { upload, readback };

// Each buffer has a staging buffer of the same layout, mapped for good; where processor and adapter share
// their memory it is the buffer itself and nothing is copied.
class TensorMemory {
public:
    TensorMemory(Device& device, Direction direction, std::span<const std::uint64_t> tensor_bytes,
                 std::string_view what, Place place);

    abi::DML_BUFFER_BINDING binding(std::size_t tensor) const;

    // The processor's view of a tensor. Memory for uploads is to be written only: reading it can be very
    // slow.
    std::span<std::byte> host(std::size_t tensor) const;

    // Records the copies from the staging buffers before the tensors are used, or to them after.
    void record_copies(abi::ID3D12GraphicsCommandList& list) const;

private:
    struct Buffer {
        std::uint64_t bytes;
        abi::ComPtr<abi::ID3D12Resource> resource;
        abi::ComPtr<abi::ID3D12Resource> staging;  // null where memory is shared
        std::byte* mapped;
    };

    Direction direction_;
    std::vector<TensorPlace> tensors_;
    std::vector<Buffer> buffers_;
};

}  // namespace dmlgraph
