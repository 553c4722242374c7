// The element types of tensors, with DirectML's values of DML_TENSOR_DATA_TYPE.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace dmlgraph::cpu {

enum class DataType : std::uint8_t {
    float32 = 1,
    float16,
    uint32,
    uint16,
    uint8,
    int32,
    int16,
    int8,
    float64,
    uint64,
    int64,
    uint4,
    int4,
};

inline constexpr std::size_t data_type_count = 14;  // with the unused 0

// Bytes of an element in memory; 0 for the 4-bit types, whose elements share a byte in pairs.
constexpr std::size_t item_size(DataType type) {
    constexpr std::array<std::uint8_t, data_type_count> sizes{0, 4, 2, 4, 2, 1, 4, 2, 1, 8, 8, 8, 0, 0};
    return sizes[static_cast<std::size_t>(type)];
}

}  // namespace dmlgraph::cpu
