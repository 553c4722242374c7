#include "directml/memory_plan.h"

namespace dmlgraph {
namespace {

// At least a cache line of any adapter; DirectML requires 16 bytes.
constexpr std::uint64_t tensor_alignment = 256;

constexpr std::uint64_t aligned(std::uint64_t offset) {
    return (offset + tensor_alignment - 1) / tensor_alignment * tensor_alignment;
}

}  // namespace

MemoryPlan plan_memory(std::span<const std::uint64_t> tensor_bytes, std::uint64_t max_buffer_bytes) {
    MemoryPlan plan;
    for (const std::uint64_t bytes : tensor_bytes) {
        std::uint64_t offset = plan.buffers.empty() ? 0 : aligned(plan.buffers.back());
        if (plan.buffers.empty() || bytes > max_buffer_bytes || offset > max_buffer_bytes - bytes) {
            plan.buffers.push_back(0);
            offset = 0;
        }
        plan.tensors.push_back({plan.buffers.size() - 1, offset, bytes});
        plan.buffers.back() = offset + bytes;
    }
    return plan;
}

}  // namespace dmlgraph
