// Formats of typed buffer views: the memory layout of an element.
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

// Null for a format that typed buffer views cannot have.
const FormatInfo* find_format(DXGI_FORMAT format);

// An element in memory: only the first FormatInfo::bytes() bytes are used.
using Element = std::array<std::byte, 16>;

// Values as ClearUnorderedAccessViewUint stores them: each component takes the low bits.
Element pack(const FormatInfo& format, const uint32_t values[4]);
// Values as ClearUnorderedAccessViewFloat stores them: rounded to the format and clamped to its range.
Element pack(const FormatInfo& format, const float values[4]);

}  // namespace dmlgraph::software
