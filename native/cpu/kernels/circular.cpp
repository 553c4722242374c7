// Circular functions and their inverses.
#include "cpu/kernels/math.h"
#include "cpu/kernels/tables.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace circular {
namespace {

inline constexpr float half_pi = 0x1.921fb6p+0f, half_pi_low = -0x1.777a5cp-25f;
inline constexpr float pi = 0x1.921fb6p+1f, pi_low = -0x1.777a5cp-24f;
inline constexpr float reducible = 0x1p20f;  // up to here a double's quotient by π/2 is exact enough

// An angle minus the nearest multiple of π/2, and the index of that multiple.
struct Angle {
    i32 quarter;
    float rest;
};

DMLGRAPH_INLINE Angle reduce(float x) {
    constexpr double whole = 0x1.8p52;
    constexpr double high = 0x1.921fb544p+0, low = 0x1.0b4611a626331p-34;  // high · quarter is exact
    const double wide = magnitude(x) <= reducible ? x : 0.0f;
    const double quarter = (wide * 0x1.45f306dc9c883p-1 + whole) - whole;
    return {static_cast<i32>(quarter), static_cast<float>((wide - quarter * high) - quarter * low)};
}

// A whole 0 and then 2/π, 32 bits in each word.
constexpr u32 two_over_pi[] = {0, 0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab};

// The angle of any x beyond `reducible`: as Payne and Hanek have it, x · 2/π is computed without the bits of 2/π that
// give multiples of 4, and without those that come after what a float needs. The C libraries differ here.
DMLGRAPH_ONCE Angle reduce_large(float x) {
    if (!(magnitude(x) < infinity)) {
        return {0, x - x};
    }
    const u32 exponent = (bits_of(x) >> 23) & 0xffu;  // x = ±mantissa · 2^(exponent - 150)
    const u64 mantissa = (bits_of(x) & 0x7fffffu) | 0x800000u;
    const u32 skipped = exponent - 120;  // bits of the table, the whole 0 included: the next one is worth 2 / mantissa
    const u32* words = two_over_pi + skipped / 32;
    const auto word = [&](u32 at) {
        return static_cast<u32>(((u64{words[at]} << 32 | words[at + 1]) << (skipped % 32)) >> 32);
    };
    // In units of 2^-62.
    const u64 quarters = (mantissa * word(0) << 32) + mantissa * word(1) + (mantissa * word(2) >> 32);
    const u64 nearest = (quarters + (u64{1} << 61)) >> 62;
    const double rest = static_cast<double>(static_cast<i64>(quarters - (nearest << 62))) * 0x1.921fb54442d18p-62;
    const bool negative = x < 0.0f;
    return {static_cast<i32>(negative ? 4 - nearest : nearest), static_cast<float>(negative ? -rest : rest)};
}

struct SinCos {
    float sin, cos;
};

// Of an angle from -π/4 to π/4.
DMLGRAPH_INLINE SinCos sin_cos(float r) {
    const float z = r * r;
    const float sin_rest = polynomial(z, -0x1.555546p-3f, 0x1.11076p-7f, -0x1.994e86p-13f);
    const float cos_rest = polynomial(z, 0x1.55554ap-5f, -0x1.6c0c8cp-10f, 0x1.9a0232p-16f);
    return {multiply_add(r * z, sin_rest, r), multiply_add(z * z, cos_rest, multiply_add(z, -0.5f, 1.0f))};
}

// Functions of x, whose angle is given, too.
struct Sin {
    float operator()(float x, Angle angle) const {
        const auto [sin, cos] = sin_cos(angle.rest);
        const float value = angle.quarter & 1 ? cos : sin;
        return x == 0.0f ? x : angle.quarter & 2 ? -value : value;
    }
};

struct Cos {
    float operator()(float, Angle angle) const {
        const auto [sin, cos] = sin_cos(angle.rest);
        const float value = angle.quarter & 1 ? sin : cos;
        return (angle.quarter + 1) & 2 ? -value : value;
    }
};

struct Tan {
    float operator()(float x, Angle angle) const {
        const auto [sin, cos] = sin_cos(angle.rest);
        const bool odd = angle.quarter & 1;
        return x == 0.0f ? x : (odd ? -cos : sin) / (odd ? sin : cos);
    }
};

// Large angles, infinities and NaN are rare: they are computed one by one.
template <class Function>
void of_angle(const Call& call) noexcept {
    const auto* all = static_cast<const float*>(call.in[0].data);
    auto* out = static_cast<float*>(call.out);
    const std::size_t total = call.in[0].scalar ? 1 : call.count;
    for (std::size_t start = 0; start < total; start += chunk) {
        const std::size_t count = total - start < chunk ? total - start : chunk;
        float x[chunk];
        u32 others = 0;
        for (std::size_t i = 0; i < count; ++i) {
            x[i] = all[start + i];
            others |= magnitude(x[i]) <= reducible ? 0u : 1u;
        }
        DMLGRAPH_LOOP
        for (std::size_t i = 0; i < count; ++i) {
            out[start + i] = Function{}(x[i], reduce(x[i]));
        }
        for (std::size_t i = 0; others != 0 && i < count; ++i) {
            if (!(magnitude(x[i]) <= reducible)) {
                out[start + i] = Function{}(x[i], reduce_large(x[i]));
            }
        }
    }
    if (call.in[0].scalar) {
        spread(out[0], out, call.count);
    }
}

// asin x = x + x³ P(x²) up to ½ (2^-27.6).
DMLGRAPH_INLINE float asin_rest(float square) {
    return polynomial(square, 0x1.5555cap-3f, 0x1.33014ep-4f, 0x1.748c64p-5f, 0x1.8ba254p-6f, 0x1.59daccp-5f);
}

// Beyond ½ as asin x = π/2 - 2 asin √((1 - x) / 2); the root of a negative number gives NaN beyond 1.
struct Asin {
    float operator()(float x) const {
        const float a = magnitude(x);
        const bool outer = a > 0.5f;
        const float square = outer ? 0.5f * (1.0f - a) : a * a;
        const float root = outer ? ::sqrtf(square) : a;
        const float angle = multiply_add(root * square, asin_rest(square), root);
        return with_sign(outer ? half_pi - (2.0f * angle - half_pi_low) : angle, x);
    }
};

struct Acos {
    float operator()(float x) const {
        const float a = magnitude(x);
        const bool outer = a > 0.5f;
        const float square = outer ? 0.5f * (1.0f - a) : a * a;
        const float root = outer ? ::sqrtf(square) : a;
        const float rest = multiply_add(root * square, asin_rest(square), root);
        const float angle = with_sign(rest, x);
        const float turned = x < 0.0f ? pi - (2.0f * rest - pi_low) : 2.0f * rest;
        return outer ? turned : half_pi - (angle - half_pi_low);
    }
};

// The angle of y / x, neither negative, from 0 to π/2. With atan t = π/4 + atan((t - 1) / (t + 1)) and π/2 - atan(1 /
// t) it follows from one quotient of at most tan(π/8), whose atan is t + t³ P(t²) (2^-30.5).
template <class T>
DMLGRAPH_INLINE float quadrant_angle(T y, T x) {
    const bool middle = y > x * static_cast<T>(0.414213562), upper = y > x * static_cast<T>(2.414213562);
    const T over = upper ? -x : middle ? y - x : y;
    const T under = upper ? y : middle ? y + x : x;
    const float t = static_cast<float>(over / under);
    const float z = t * t;
    const float rest = polynomial(z, -0x1.55554ap-2f, 0x1.9991a6p-3f, -0x1.23b636p-3f, 0x1.b1fa16p-4f, -0x1.f22b0ep-5f);
    const float angle = upper ? half_pi : middle ? 0.5f * half_pi : 0.0f;
    const float low = upper ? half_pi_low : middle ? 0.5f * half_pi_low : 0.0f;
    return angle + (multiply_add(t * z, rest, t) + low);
}

struct Atan {
    float operator()(float x) const { return with_sign(quadrant_angle(magnitude(x), 1.0f), x); }
};

// In double, where sums do not overflow and quotients do not underflow.
struct AtanYx {
    float operator()(float y, float x) const {
        const bool both_infinite = (magnitude(y) == infinity) & (magnitude(x) == infinity);
        const double rise = both_infinite ? 1.0 : static_cast<double>(magnitude(y));
        const double run = both_infinite ? 1.0 : static_cast<double>(magnitude(x));
        const float angle = (y == 0.0f) & (x == x) ? 0.0f : quadrant_angle(rise, run);
        const bool left = bits_of(x) >> 31 != 0;
        return with_sign(left ? pi - (angle - pi_low) : angle, y);
    }
};

#define ANGLE(opcode, function)                                             \
    {Opcode::opcode, DataType::float32, DataType::float32, of_angle<function>}, \
    {Opcode::opcode, DataType::float16, DataType::float16, in_half<of_angle<function>, 1, Half>},

const Entry entries[] = {ANGLE(SIN, Sin) ANGLE(COS, Cos) ANGLE(TAN, Tan) DMLGRAPH_UNARY_FLOATS(ASIN, Asin)
                             DMLGRAPH_UNARY_FLOATS(ACOS, Acos) DMLGRAPH_UNARY_FLOATS(ATAN, Atan)
                                 DMLGRAPH_SLOW_BINARY_FLOATS(ATAN_YX, AtanYx)};

}  // namespace
}  // namespace circular

constexpr Entries circular_kernels = circular::entries;

}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
