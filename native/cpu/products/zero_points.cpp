#include "cpu/products/zero_points.h"

#include <algorithm>

namespace dmlgraph::cpu {

ZeroPoints::ZeroPoints(const std::byte* data, DataType type, std::int64_t step, std::int64_t count)
    : varies_(data != nullptr && step != 0 && count > 1), values_(static_cast<std::size_t>(varies_ ? count : widest_panel)) {
    const auto number = [&](std::int64_t i) -> std::int16_t {
        const std::byte* const from = data + i * step;
        return type == DataType::int8 ? *reinterpret_cast<const std::int8_t*>(from) : *reinterpret_cast<const std::uint8_t*>(from);
    };
    if (varies_) {
        for (std::int64_t i = 0; i < count; ++i) {
            values_[static_cast<std::size_t>(i)] = number(i);
        }
    } else if (data != nullptr) {
        std::ranges::fill(values_, number(0));
    }
}

PairsKernel pairs_of(DataType type, const ProductKernels& kernels) {
    return type == DataType::int8 ? kernels.integers.pairs : kernels.integers.unsigned_pairs;
}

}  // namespace dmlgraph::cpu
