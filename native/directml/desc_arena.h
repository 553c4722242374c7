// Packs an operator into the exact bytes of its C struct.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "abi/directml.h"
#include "directml/operator_desc.h"

namespace dmlgraph {

// One contiguous block: the operator's struct first, then everything its pointers reach (tensor descs, arrays,
// nested operators). The block keeps its address when the arena is moved; it must not be copied, because the
// pointers inside it are absolute. An absent tensor, operator or scale-bias and an empty array are null.
class DescArena {
public:
    explicit DescArena(const OperatorDesc& op);

    DescArena(DescArena&&) noexcept = default;
    DescArena& operator=(DescArena&&) noexcept = default;
    DescArena(const DescArena&) = delete;
    DescArena& operator=(const DescArena&) = delete;

    // Valid as long as the arena lives.
    abi::DML_OPERATOR_DESC desc() const { return {static_cast<abi::DML_OPERATOR_TYPE>(type_), block_.data()}; }
    std::span<const std::byte> block() const { return block_; }

private:
    std::uint32_t type_;
    std::vector<std::byte> block_;
};

}  // namespace dmlgraph
