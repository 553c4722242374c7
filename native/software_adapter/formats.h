// Formats of typed buffer views: how an element lies in memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "abi/d3d12.h"

namespace dmlgraph::software {

using namespace abi;

enum class ComponentType { uint, sint, real, unorm, snorm };

struct FormatInfo {
    DXGI_FORMAT format;
    uint32_t components;
    uint32_t bits;  // of a component
    ComponentType type;

    uint32_t bytes() const { return components * bits / 8; }
};

// Null for a format that no typed buffer view can have.
const FormatInfo* find_format(DXGI_FORMAT format);

// An element in memory: the first FormatInfo::bytes() bytes count.
using Element = std::array<std::byte, 16>;

// Values as ClearUnorderedAccessViewUint stores them: each component takes the low bits.
Element pack(const FormatInfo& format, const uint32_t values[4]);
// Values as ClearUnorderedAccessViewFloat stores them: rounded to the format; out of range goes to the
// nearest.
Element pack(const FormatInfo& format, const float values[4]);

}  // namespace dmlgraph::software
