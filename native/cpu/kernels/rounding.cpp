// Whole numbers near a float, and the moduli computed with them.
#include "cpu/kernels/math.h"
#include "cpu/kernels/tables.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace rounding {
namespace {

struct Floor {
    float operator()(float x) const { return floor(x); }
};

struct Ceil {
    float operator()(float x) const { return -floor(-x); }
};

struct Truncate {
    float operator()(float x) const { return truncate(x); }
};

struct RoundToEven {
    float operator()(float x) const { return round_to_even(x); }
};

struct RoundAway {
    float operator()(float x) const {
        const float sign = x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x == 0.0f ? 0.0f : x;
        return sign * floor(magnitude(x) + 0.5f);
    }
};

// The next float upwards, or away from zero; zeros, infinities and NaN stay.
DMLGRAPH_INLINE bool stays(float x) { return x == 0.0f || !(magnitude(x) < infinity); }
DMLGRAPH_INLINE float up(float x) {
    const u32 bits = bits_of(x);
    return stays(x) ? x : float_of(x > 0.0f ? bits + 1 : bits - 1);
}
DMLGRAPH_INLINE float outwards(float x) { return stays(x) ? x : float_of(bits_of(x) + 1); }

// a - b * whole(the float next to a / b), as measured.
struct ModulusTruncate {
    float operator()(float a, float b) const { return a - b * truncate(outwards(a / b)); }
};

struct ModulusFloor {
    float operator()(float a, float b) const { return a - b * floor(up(a / b)); }
};

const Entry entries[] = {DMLGRAPH_UNARY_FLOATS(FLOOR, Floor) DMLGRAPH_UNARY_FLOATS(CEIL, Ceil) DMLGRAPH_UNARY_FLOATS(
    TRUNCATE, Truncate) DMLGRAPH_UNARY_FLOATS(ROUND_TO_EVEN, RoundToEven) DMLGRAPH_UNARY_FLOATS(ROUND_AWAY, RoundAway)
                             DMLGRAPH_SLOW_BINARY_FLOATS(MODULUS_TRUNCATE, ModulusTruncate)
                                 DMLGRAPH_SLOW_BINARY_FLOATS(MODULUS_FLOOR, ModulusFloor)};

}  // namespace
}  // namespace rounding

constexpr Entries rounding_kernels = rounding::entries;

}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
