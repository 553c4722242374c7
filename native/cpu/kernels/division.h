// Quotients of many floats and one divisor.
#pragma once

#include "cpu/kernels/loops.h"
#include "cpu/kernels/part_vector.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace {

DMLGRAPH_INLINE bool is_between(float x, float low, float high) { return low < x && x < high; }

// The reciprocal, rounded, gives a quotient that is nearly right, and then its remainder the right one (Markstein): a
// quarter of a division's time. That needs a remainder which is exact, and numbers that are neither zero nor infinite;
// of others the divisions are done. Returns how many quotients it has written.
inline std::size_t divide_by_reciprocal(float* out, const float* x, float divisor, std::size_t count) {
    constexpr int together = 4;
    constexpr float least = 0x1p-80f, greatest = 0x1p80f;  // of squares
    if (!is_between(divisor * divisor, least, greatest)) {
        return 0;
    }
    const Vector reciprocal = repeated(1.0f / divisor), negative = repeated(-divisor);
    std::size_t i = 0;
    for (; i + together * lanes <= count; i += together * lanes) {
        Vector a[together];
        Vector most = repeated(least), fewest = repeated(greatest);  // not NaN, which would hide what comes after it
        DMLGRAPH_UNROLL
        for (int k = 0; k < together; ++k) {
            a[k] = load(x + i + k * lanes);
            const Vector square = times(a[k], a[k]);
            most = greater(square, most);
            fewest = lesser(square, fewest);
        }
        if (is_any_greater(most, repeated(greatest)) || is_any_greater(repeated(least), fewest)) {
            DMLGRAPH_LOOP
            for (std::size_t k = i; k < i + together * lanes; ++k) {
                out[k] = x[k] / divisor;
            }
            continue;
        }
        DMLGRAPH_UNROLL
        for (int k = 0; k < together; ++k) {
            const Vector quotient = times(a[k], reciprocal);
            const Vector remainder = product_sum(quotient, negative, a[k]);
            store(out + i + k * lanes, product_sum(remainder, reciprocal, quotient));
        }
    }
    return i;
}

}  // namespace
}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
