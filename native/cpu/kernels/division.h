// Quotients of many floats and one divisor.
#pragma once

#include "cpu/kernels/part_vector.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace {

// The reciprocal, rounded, gives a quotient that is nearly right, and then its remainder the right one (Markstein): a
// quarter of a division's time. That needs a fused multiply-add, so that the remainder is exact, and numbers that are
// neither zero nor infinite.
class Reciprocal {
public:
    static bool fits([[maybe_unused]] float divisor) {
#ifdef DMLGRAPH_FMA
        const float square = divisor * divisor;
        return least < square && square < greatest;
#else
        return false;
#endif
    }
    DMLGRAPH_INLINE Reciprocal(float divisor, float reciprocal)
        : reciprocal_(repeated(reciprocal)), negative_(repeated(-divisor)) {}

    // Several numbers are looked at first: whether their quotients are right.
    DMLGRAPH_INLINE void look_at(Vector x) {
        const Vector square = times(x, x);
        most_ = greater(square, most_);
        fewest_ = lesser(square, fewest_);
    }
    DMLGRAPH_INLINE bool fits_all() const {
        return !is_any_greater(most_, repeated(greatest)) && !is_any_greater(repeated(least), fewest_);
    }
    DMLGRAPH_INLINE Vector quotient(Vector x) const {
        const Vector near = times(x, reciprocal_);
        return product_sum(product_sum(near, negative_, x), reciprocal_, near);
    }

private:
    static constexpr float least = 0x1p-80f, greatest = 0x1p80f;  // of squares

    Vector reciprocal_, negative_;
    Vector most_ = repeated(least), fewest_ = repeated(greatest);  // not NaN, which would hide what comes after it
};

}  // namespace
}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
