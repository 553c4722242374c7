// exp, log and functions composed of them, in float32, as expressions that vectorise.
//
// Polynomials are minimax fits of the relative error with float32 coefficients; an error bound in brackets is that of
// the fit. tests/native/test_cpu_kernels.py states and checks the error of the results.
#pragma once

#include "cpu/kernels/math.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace {

inline constexpr float log2_e = 0x1.715476p+0f;
inline constexpr float ln2_high = 0x1.63p-1f;  // few bits, so that its product with an exponent is exact
inline constexpr float ln2_low = -0x1.bd0106p-13f;

DMLGRAPH_INLINE float power_of_two(i32 n) { return float_of(static_cast<u32>(n + 127) << 23); }

// x = n ln 2 + r with a whole n and |r| at most half of ln 2.
struct Reduced {
    i32 n;
    float r;
};

// The sum with it has no bits for a fraction, and the whole number in its lowest bits.
inline constexpr float whole = 0x1.8p23f;

DMLGRAPH_INLINE Reduced reduce(float x) {
    const float shifted = multiply_add(x, log2_e, whole);
    const float n = shifted - whole;
    const float r = multiply_add(n, -ln2_low, multiply_add(n, -ln2_high, x));
    return {static_cast<i32>(bits_of(shifted) - bits_of(whole)), r};
}

// (e^r - 1 - r) / r² for |r| up to half of ln 2 (2^-31.9).
inline constexpr float exp_terms[] = {0x1p-1f,        0x1.555554p-3f,  0x1.5554bp-5f,
                                      0x1.11118ap-7f, 0x1.6d7348p-10f, 0x1.a032d4p-13f};
DMLGRAPH_INLINE float exp_rest(float r) {
    return polynomial(r, exp_terms[0], exp_terms[1], exp_terms[2], exp_terms[3], exp_terms[4], exp_terms[5]);
}

// e^r · 2^n for |r| up to half of ln 2. It multiplies by 2^n in two steps, so that small results become subnormal, not
// zero.
DMLGRAPH_INLINE float scaled_exp(float r, i32 n) {
    const float e = 1.0f + multiply_add(r * r, exp_rest(r), r);
    const u32 exponents = static_cast<u32>(n + 2 * 127), half = exponents >> 1;
    return e * float_of(half << 23) * float_of((exponents - half) << 23);
}

DMLGRAPH_INLINE float at_least(float x, float least) { return x < least ? least : x; }
DMLGRAPH_INLINE float at_most(float x, float most) { return x > most ? most : x; }

DMLGRAPH_INLINE float exp(float x) {
    const auto [n, r] = reduce(at_most(at_least(x, -104.0f), 89.0f));
    return scaled_exp(r, n);
}

// e^(x + low) for a small low, and x up to 89.
DMLGRAPH_INLINE float exp_sum(float x, float low) {
    const auto [n, r] = reduce(at_least(x, -104.0f));
    return scaled_exp(r + low, n);
}

// e^x - 1 for x from -80 to 89.
DMLGRAPH_INLINE float expm1_inside(float x) {
    const auto [n, r] = reduce(x);
    const float rest = multiply_add(r * r, exp_rest(r), r);
    const float half_power = power_of_two(n - 1);
    return 2.0f * multiply_add(half_power, rest, half_power - 0.5f);
}

DMLGRAPH_INLINE float expm1(float x) { return expm1_inside(at_most(at_least(x, -80.0f), 89.0f)); }

// ln((1 + f) 2^n) for 1 + f between √½ and √2 (2^-30.3).
DMLGRAPH_INLINE float log_of_parts(float f, float n) {
    const float rest = polynomial(f, 0x1.555548p-2f, -0x1.000006p-2f, 0x1.99a4bcp-3f, -0x1.555c5ap-3f, 0x1.2336e2p-3f,
                                  -0x1.fc1f6ap-4f, 0x1.e6f60ap-4f, -0x1.de4faep-4f, 0x1.14631ep-4f);
    const float square = f * f;
    const float small = multiply_add(square * f, rest, multiply_add(n, ln2_low, -0.5f * square));
    return multiply_add(n, ln2_high, f + small);
}

DMLGRAPH_INLINE float log(float x) {
    constexpr u32 root_half = 0x3f3504f3u;
    const bool subnormal = x < 0x1p-126f;
    const u32 bits = bits_of(subnormal ? x * 0x1p23f : x) - root_half;
    const i32 n = static_cast<i32>(bits) >> 23;
    const float f = float_of((bits & 0x7fffffu) + root_half) - 1.0f;
    const float result = log_of_parts(f, static_cast<float>(n - (subnormal ? 23 : 0)));
    const float positive = x < infinity ? result : x;  // NaN stays NaN
    return x > 0.0f ? positive : x == 0.0f ? -infinity : not_a_number;
}

// ln(1 + t) for t between 0 and 1.
DMLGRAPH_INLINE float log1p_of_unit(float t) {
    const bool upper = t > 0x1.a82798p-2f;  // √2 - 1
    return log_of_parts(upper ? 0.5f * (t - 1.0f) : t, upper ? 1.0f : 0.0f);
}

// ln(1 + e^(x + low)), minus x if x is positive.
DMLGRAPH_INLINE float softplus_rest(float x, float low) {
    return log1p_of_unit(exp_sum(-magnitude(x), x > 0.0f ? -low : low));
}

// log2 of a float32's or integer's magnitude, in double.
DMLGRAPH_INLINE double log2(double x) {
    constexpr u64 root_half = 0x3fe6a09e667f3bcdu, one = 0x3ff0000000000000u, fraction = 0xfffffffffffffu;
    const u64 bits = bits_of(x) - root_half + one;
    const double exponent = double_of(bits >> 52 | 0x4330000000000000u) - (0x1p52 + 1023.0);
    const double m = double_of((bits & fraction) + root_half);
    const double s = (m - 1.0) / (m + 1.0);
    const double atanh =
        s * polynomial(s * s, 0x1.0000000000001p+0, 0x1.5555555551569p-2, 0x1.999999a7be3fdp-3, 0x1.24923f40a1868p-3,
                       0x1.c723557ddcacfp-4, 0x1.73188c76e782ap-4, 0x1.59170521d0bffp-4);
    const double finite = exponent + atanh * 0x1.71547652b82fep+1;  // 2 / ln 2
    const double positive = x < static_cast<double>(infinity) ? finite : x;
    return x == 0.0 ? -static_cast<double>(infinity) : positive;
}

// 2^x in double; clamped to 2^±200, where float32 is zero or infinite.
DMLGRAPH_INLINE double exp2(double x) {
    constexpr double whole = 0x1.8p52;
    const double above = x < -200.0 ? -200.0 : x;
    const double bounded = above > 200.0 ? 200.0 : above;
    const double shifted = bounded + whole;
    const double r = (bounded - (shifted - whole)) * 0x1.62e42fefa39efp-1;
    const double e = polynomial(r, 0x1.0000000000039p+0, 0x1.ffffffffffc3fp-1, 0x1.ffffffffe7ff2p-2,
                                0x1.55555555ba13fp-3, 0x1.555555881aba5p-5, 0x1.1111105ef029fp-7, 0x1.6c162c6f550efp-10,
                                0x1.a01bb53e73754p-13, 0x1.a17d6f918887fp-16, 0x1.70eb1dd2723ffp-19);
    return e * double_of((bits_of(shifted) << 52) + 0x3ff0000000000000u);
}

// The factor of a negative base's power compared with its magnitude's: -1 for odd exponents, NaN for fractions.
DMLGRAPH_INLINE double sign_of_power(double exponent) {
    const double a = magnitude(exponent), half = 0.5 * a;
    const double whole = a < 0x1p51 ? (a + 0x1p52) - 0x1p52 : a;
    const double even = half < 0x1p51 ? (half + 0x1p52) - 0x1p52 : half;
    const double sign = whole != a ? static_cast<double>(not_a_number) : even != half ? -1.0 : 1.0;
    return a < static_cast<double>(infinity) ? sign : static_cast<double>(not_a_number);
}

// base^exponent as 2^(exponent · log2 |base|); `sign` is the factor of the exponent.
DMLGRAPH_INLINE double power(double base, double exponent, double sign) {
    const double result = exp2(exponent * log2(magnitude(base)));
    return base < 0.0 ? sign * result : result;
}

}  // namespace
}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
