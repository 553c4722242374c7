// A DirectML operator as plain data: its type and its fields in the order of its C struct.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

namespace dmlgraph {

// DML_BUFFER_TENSOR_DESC: sizes and strides in elements, strides absent when packed.
struct TensorDesc {
    std::uint32_t data_type = 0;
    std::uint32_t flags = 0;
    std::vector<std::uint32_t> sizes;
    std::optional<std::vector<std::uint32_t>> strides;
    std::uint64_t total_bytes = 0;
    std::uint32_t alignment = 0;
};

struct ScaleBias {
    float scale = 0;
    float bias = 0;
};

struct Size2D {
    std::uint32_t width = 0;
    std::uint32_t height = 0;
};

// DML_SCALAR_UNION: another field of the operator says which member of the union is used.
using ScalarBytes = std::array<std::byte, 8>;

enum class FieldKind : std::uint8_t {
    tensor,
    tensors,
    u32,
    i32,
    f32,
    boolean,
    u64,
    enumeration,
    scalar,
    u32s,
    i32s,
    f32s,
    scale_bias,
    size_2d,
    op,
    ops,
};

struct FieldKindInfo {
    std::string_view name;
    std::size_t size;       // bytes in the operator's struct
    std::size_t alignment;  // bytes
};

// Indexed by FieldKind. Everything of variable length is a pointer; its count is a separate u32 field.
inline constexpr std::array<FieldKindInfo, 16> field_kinds{{
    {"tensor", sizeof(void*), alignof(void*)},
    {"tensors", sizeof(void*), alignof(void*)},
    {"u32", 4, 4},
    {"i32", 4, 4},
    {"f32", 4, 4},
    {"bool", 4, 4},
    {"u64", 8, 8},
    {"enum", 4, 4},
    {"scalar", 8, 8},
    {"u32s", sizeof(void*), alignof(void*)},
    {"i32s", sizeof(void*), alignof(void*)},
    {"f32s", sizeof(void*), alignof(void*)},
    {"scale_bias", sizeof(void*), alignof(void*)},
    {"size_2d", sizeof(Size2D), alignof(Size2D)},
    {"operator", sizeof(void*), alignof(void*)},
    {"operators", sizeof(void*), alignof(void*)},
}};

constexpr const FieldKindInfo& info(FieldKind kind) { return field_kinds[static_cast<std::size_t>(kind)]; }

std::optional<FieldKind> find_field_kind(std::string_view name);

struct OperatorDesc;

using FieldValue = std::variant<std::optional<TensorDesc>,                          // tensor
                                std::vector<TensorDesc>,                            // tensors
                                std::uint32_t,                                      // u32, bool, enum
                                std::int32_t,                                       // i32
                                float,                                              // f32
                                std::uint64_t,                                      // u64
                                ScalarBytes,                                        // scalar
                                std::vector<std::uint32_t>,                         // u32s
                                std::vector<std::int32_t>,                          // i32s
                                std::vector<float>,                                 // f32s
                                std::optional<ScaleBias>,                           // scale_bias
                                Size2D,                                             // size_2d
                                std::shared_ptr<const OperatorDesc>,                // operator, null when absent
                                std::vector<std::shared_ptr<const OperatorDesc>>>;  // operators

struct Field {
    FieldKind kind;
    FieldValue value;
};

struct OperatorDesc {
    std::uint32_t type = 0;  // DML_OPERATOR_TYPE
    std::vector<Field> fields;
};

// A C compiler's layout of the fields, in bytes: in order, with natural alignment.
struct StructLayout {
    std::size_t size = 0;
    std::size_t alignment = 1;
    std::vector<std::size_t> offsets;
};

constexpr std::size_t align_up(std::size_t offset, std::size_t alignment) {
    return (offset + alignment - 1) / alignment * alignment;
}

StructLayout struct_layout(std::span<const FieldKind> kinds);
StructLayout struct_layout(const OperatorDesc& op);

}  // namespace dmlgraph
