// Numbers as 8-bit integers.
#pragma once

#include "cpu/kernels/types.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace {

// clamp(round(x) + zero point), halves to even; NaN gives the least number. The bounds are integers, so numbers may be
// clamped before they are rounded: then they are small, and the sum with 1.5 · 2^23 has no bits for a fraction, but the
// integer in its last ones.
template <class Out>
DMLGRAPH_INLINE Out rounded_to(float x, Out zero_point) {
    const auto from = static_cast<float>(least<Out> - zero_point), to = static_cast<float>(greatest<Out> - zero_point);
    const float low = x > from ? x : from;
    const float inside = low < to ? low : to;
    return static_cast<Out>(bits_of(inside + 0x1.8p23f) + static_cast<u32>(zero_point));
}

}  // namespace
}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
