#include "software_adapter/formats.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace dmlgraph::software {
namespace {

using enum ComponentType;

constexpr FormatInfo formats[] = {
    {DXGI_FORMAT_R32G32B32A32_FLOAT, 4, 32, real},
    {DXGI_FORMAT_R32G32B32A32_UINT, 4, 32, uint},
    {DXGI_FORMAT_R32G32B32A32_SINT, 4, 32, sint},
    {DXGI_FORMAT_R32G32B32_FLOAT, 3, 32, real},
    {DXGI_FORMAT_R32G32B32_UINT, 3, 32, uint},
    {DXGI_FORMAT_R32G32B32_SINT, 3, 32, sint},
    {DXGI_FORMAT_R16G16B16A16_FLOAT, 4, 16, real},
    {DXGI_FORMAT_R16G16B16A16_UNORM, 4, 16, unorm},
    {DXGI_FORMAT_R16G16B16A16_UINT, 4, 16, uint},
    {DXGI_FORMAT_R16G16B16A16_SNORM, 4, 16, snorm},
    {DXGI_FORMAT_R16G16B16A16_SINT, 4, 16, sint},
    {DXGI_FORMAT_R32G32_FLOAT, 2, 32, real},
    {DXGI_FORMAT_R32G32_UINT, 2, 32, uint},
    {DXGI_FORMAT_R32G32_SINT, 2, 32, sint},
    {DXGI_FORMAT_R8G8B8A8_UNORM, 4, 8, unorm},
    {DXGI_FORMAT_R8G8B8A8_UINT, 4, 8, uint},
    {DXGI_FORMAT_R8G8B8A8_SNORM, 4, 8, snorm},
    {DXGI_FORMAT_R8G8B8A8_SINT, 4, 8, sint},
    {DXGI_FORMAT_R16G16_FLOAT, 2, 16, real},
    {DXGI_FORMAT_R16G16_UNORM, 2, 16, unorm},
    {DXGI_FORMAT_R16G16_UINT, 2, 16, uint},
    {DXGI_FORMAT_R16G16_SNORM, 2, 16, snorm},
    {DXGI_FORMAT_R16G16_SINT, 2, 16, sint},
    {DXGI_FORMAT_R32_FLOAT, 1, 32, real},
    {DXGI_FORMAT_R32_UINT, 1, 32, uint},
    {DXGI_FORMAT_R32_SINT, 1, 32, sint},
    {DXGI_FORMAT_R8G8_UNORM, 2, 8, unorm},
    {DXGI_FORMAT_R8G8_UINT, 2, 8, uint},
    {DXGI_FORMAT_R8G8_SNORM, 2, 8, snorm},
    {DXGI_FORMAT_R8G8_SINT, 2, 8, sint},
    {DXGI_FORMAT_R16_FLOAT, 1, 16, real},
    {DXGI_FORMAT_R16_UNORM, 1, 16, unorm},
    {DXGI_FORMAT_R16_UINT, 1, 16, uint},
    {DXGI_FORMAT_R16_SNORM, 1, 16, snorm},
    {DXGI_FORMAT_R16_SINT, 1, 16, sint},
    {DXGI_FORMAT_R8_UNORM, 1, 8, unorm},
    {DXGI_FORMAT_R8_UINT, 1, 8, uint},
    {DXGI_FORMAT_R8_SNORM, 1, 8, snorm},
    {DXGI_FORMAT_R8_SINT, 1, 8, sint},
};

// Converts float32 to float16, to nearest even.
uint32_t half_bits(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    const uint32_t sign = bits >> 16 & 0x8000;
    const uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) {
        return sign | 0x7e00;
    }
    if (magnitude >= 0x477ff000) {  // 65520, halfway between the largest value and the next power of two
        return sign | 0x7c00;
    }
    if (magnitude < 0x38800000) {  // below 2^-14 a step is 2^-24
        return sign | static_cast<uint32_t>(std::lrint(std::bit_cast<float>(magnitude) * 0x1p24f));
    }
    const uint32_t rebiased = magnitude - (112u << 23);
    return sign | (rebiased + 0xfff + (rebiased >> 13 & 1)) >> 13;
}

// Rounds to the nearest integer in [low, high]; NaN gives 0.
uint32_t round_to(double value, double low, double high) {
    return std::isnan(value) ? 0 : static_cast<uint32_t>(std::llrint(std::clamp(value, low, high)));
}

uint32_t component_bits(const FormatInfo& format, float value) {
    const double unsigned_top = std::exp2(format.bits) - 1;
    const double signed_top = std::exp2(format.bits - 1) - 1;
    switch (format.type) {
        case real: return format.bits == 16 ? half_bits(value) : std::bit_cast<uint32_t>(value);
        case uint: return round_to(std::trunc(value), 0, unsigned_top);
        case sint: return round_to(std::trunc(value), -signed_top - 1, signed_top);
        case unorm: return round_to(value * unsigned_top, 0, unsigned_top);
        case snorm: return round_to(value * signed_top, -signed_top, signed_top);
    }
    return 0;
}

Element pack_bits(const FormatInfo& format, const uint32_t bits[4]) {
    Element element{};
    for (uint32_t i = 0; i < format.components; ++i) {
        std::memcpy(element.data() + i * format.bits / 8, &bits[i], format.bits / 8);
    }
    return element;
}

}  // namespace

const FormatInfo* find_format(DXGI_FORMAT format) {
    const auto* found = std::ranges::find(formats, format, &FormatInfo::format);
    return found == std::end(formats) ? nullptr : found;
}

Element pack(const FormatInfo& format, const uint32_t values[4]) { return pack_bits(format, values); }

Element pack(const FormatInfo& format, const float values[4]) {
    uint32_t bits[4] = {};
    for (uint32_t i = 0; i < format.components; ++i) {
        bits[i] = component_bits(format, values[i]);
    }
    return pack_bits(format, bits);
}

}  // namespace dmlgraph::software
