// The places of tensors in buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace dmlgraph {

struct TensorPlace {
    std::size_t buffer;
    std::uint64_t offset;  // bytes
    std::uint64_t bytes;
};

struct MemoryPlan {
    std::vector<TensorPlace> tensors;
    std::vector<std::uint64_t> buffers;  // sizes in bytes
};

// Packs tensors in order into as few buffers as the maximum buffer size allows. A tensor larger than that gets
// its own buffer, which then cannot be created.
MemoryPlan plan_memory(std::span<const std::uint64_t> tensor_bytes, std::uint64_t max_buffer_bytes);

}  // namespace dmlgraph
