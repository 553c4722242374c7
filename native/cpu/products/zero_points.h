// The zero points of an operand of 8-bit integers.
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/kernels/product.h"
#include "cpu/tensor/layout.h"

namespace dmlgraph::cpu {

inline constexpr std::int64_t widest_panel = 64;  // lines

constexpr bool is_byte(DataType type) { return type == DataType::int8 || type == DataType::uint8; }

// One for each line of the operand, or one for all.
class ZeroPoints {
public:
    ZeroPoints() = default;  // of floats
    // `count` integers that are `step` bytes apart; null: zeros.
    ZeroPoints(const std::byte* data, DataType type, std::int64_t step, std::int64_t count);

    bool varies() const { return varies_; }
    // Those of the lines from `line` on, for as many as a panel has.
    const std::int16_t* at(std::int64_t line) const { return values_.data() + (varies_ ? line : 0); }

private:
    bool varies_ = false;
    std::vector<std::int16_t> values_;
};

// The kernel that pairs integers of this type.
PairsKernel pairs_of(DataType type, const ProductKernels& kernels);

}  // namespace dmlgraph::cpu
