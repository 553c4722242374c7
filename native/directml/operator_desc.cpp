#include "directml/operator_desc.h"

#include <algorithm>

namespace dmlgraph {

std::optional<FieldKind> find_field_kind(std::string_view name) {
    const auto found = std::ranges::find(field_kinds, name, &FieldKindInfo::name);
    if (found == field_kinds.end()) {
        return std::nullopt;
    }
    return static_cast<FieldKind>(found - field_kinds.begin());
}

StructLayout struct_layout(std::span<const FieldKind> kinds) {
    StructLayout layout;
    layout.offsets.reserve(kinds.size());
    for (const FieldKind kind : kinds) {
        const auto& [name, size, alignment] = info(kind);
        const std::size_t offset = align_up(layout.size, alignment);
        layout.offsets.push_back(offset);
        layout.size = offset + size;
        layout.alignment = std::max(layout.alignment, alignment);
    }
    layout.size = align_up(layout.size, layout.alignment);
    return layout;
}

StructLayout struct_layout(const OperatorDesc& op) {
    std::vector<FieldKind> kinds;
    kinds.reserve(op.fields.size());
    for (const Field& field : op.fields) {
        kinds.push_back(field.kind);
    }
    return struct_layout(kinds);
}

}  // namespace dmlgraph
