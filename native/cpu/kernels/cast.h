// Numbers from one type to another, as CAST converts them: dmlgraph/operators/common/numerics.py, `convert`.
#pragma once

#include "cpu/kernels/types.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace {

// The number nearest to zero that is beyond an integer type, upwards, and the greatest below it.
template <class Float, class Int>
inline constexpr Float beyond =
    static_cast<Float>(Word<Int>{1} << (sizeof(Int) * 8 - 1)) * (is_signed_integer<Int> ? Float{1} : Float{2});
template <class Float, class Int>
inline constexpr Float below =
    sizeof(Int) < 4 || (sizeof(Int) == 4 && sizeof(Float) == 8)
        ? beyond<Float, Int> - Float{1}
        : beyond<Float, Int> * (Float{1} - (sizeof(Float) == 4 ? Float(0x1p-24) : Float(0x1p-53)));

// Truncates a float in the range of a 32-bit type. Processors convert to signed integers best.
template <class Int, class Float>
DMLGRAPH_INLINE Int cut_inside(Float x) {
    if constexpr (is_same<Int, u32>) {
        const Float half_range = static_cast<Float>(2147483648.0);
        const bool upper = x >= half_range;
        return static_cast<u32>(static_cast<i32>(upper ? x - half_range : x)) ^ (upper ? 0x80000000u : 0u);
    } else if constexpr (sizeof(Int) <= 4) {
        return static_cast<Int>(static_cast<i32>(x));
    } else {
        return static_cast<Int>(x);
    }
}

// Truncated; the nearest bound beyond the range; 0 for NaN.
template <class Int, class Float>
DMLGRAPH_INLINE Int saturate(Float x) {
    constexpr Float low = static_cast<Float>(least<Int>);
    const Float from_below = x > low ? x : low;
    const Float inside = from_below < below<Float, Int> ? from_below : below<Float, Int>;
    const Int cut = cut_inside<Int>(inside);
    const Int bounded = x >= beyond<Float, Int> ? greatest<Int> : cut;
    return x != x ? Int{0} : bounded;
}

// Integers written through a typed view, which clamps their 32-bit form.
template <class Out, class In>
DMLGRAPH_INLINE Out store(In x) {
    if constexpr (is_signed_integer<Out>) {
        const i32 wide = static_cast<i32>(static_cast<u32>(x));
        const i32 low = wide < least<Out> ? least<Out> : wide;
        return static_cast<Out>(low > greatest<Out> ? greatest<Out> : low);
    } else {
        const u32 wide = static_cast<u32>(x);
        return static_cast<Out>(wide > greatest<Out> ? greatest<Out> : wide);
    }
}

template <class Out, class In>
DMLGRAPH_INLINE Out cast(In x) {
    if constexpr (is_same<Out, In>) {
        return x;
    } else if constexpr (is_float<In> && !is_float<Out>) {
        return saturate<Out>(x);
    } else if constexpr (!is_float<In> && (sizeof(Out) == 1 || (sizeof(Out) == 2 && sizeof(In) == 1))) {
        return store<Out>(x);
    } else if constexpr (is_same<In, u32> && is_same<Out, float>) {
        // Both halves are exact, so the sum rounds once; a single instruction for this exists only from AVX-512 on.
        return static_cast<float>(static_cast<i32>(x >> 16)) * 65536.0f +
               static_cast<float>(static_cast<i32>(x & 0xffffu));
    } else {
        return static_cast<Out>(x);
    }
}

}  // namespace
}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
