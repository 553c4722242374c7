// Functions of float16 tensors as DirectML computes them: in float32, every step rounded to it.
//
// The formulas are those of dmlgraph/operators/common/shader.py and of the operators' `half`. A kernel's result is
// rounded to float16 when it is stored.
#include "cpu/kernels/exponential.h"
#include "cpu/kernels/tables.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace half_functions {
namespace {

constexpr float log2_e = 0x1.715476p+0f, ln2 = 0x1.62e43p-1f;

DMLGRAPH_INLINE float exp2_of(float x) { return static_cast<float>(exp2(static_cast<double>(x))); }

DMLGRAPH_INLINE float log2_of(float x) {
    const float logarithm = static_cast<float>(log2(static_cast<double>(magnitude(x))));
    return x < 0.0f ? not_a_number : logarithm;
}

// factor · ln x.
DMLGRAPH_INLINE float log_by_steps(float x, float factor = 1.0f) { return log2_of(x) * (factor * ln2); }

// Abramowitz and Stegun, 7.1.26.
DMLGRAPH_INLINE float erf_by_steps(float x) {
    const float a = magnitude(x);
    const float t = 1.0f / (a * 0.3275911f + 1.0f);
    float total = 1.061405429f;
    total = total * t + -1.453152027f;
    total = total * t + 1.421413741f;
    total = total * t + -0.284496736f;
    total = total * t + 0.254829592f;
    const float power = exp2_of(a * a * -log2_e);
    const float sign = x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : 0.0f;
    return (1.0f - power * t * total) * sign;
}

// Infinite beyond the greatest float16, even slightly.
DMLGRAPH_INLINE float power_by_steps(float base, float exponent, double sign) {
    const float result = exp2_of(exponent * log2_of(magnitude(base)));
    const float bounded = result > 65504.0f ? infinity : result;
    return base < 0.0f ? static_cast<float>(sign) * bounded : bounded;
}

struct Exp {
    float operator()(float x) const { return exp2_of(x * log2_e); }
};

struct Log {
    // Unlike DirectML, which multiplies in float16: that is up to two units in the last place off.
    float operator()(float x) const {
        const double logarithm = log2(static_cast<double>(magnitude(x))) * 0x1.62e42fefa39efp-1;
        return x < 0.0f ? not_a_number : static_cast<float>(logarithm);
    }
};

struct Erf {
    float operator()(float x) const { return erf_by_steps(x); }
};

struct Asinh {
    float operator()(float x) const { return log_by_steps(x + ::sqrtf(x * x + 1.0f)); }
};

struct Acosh {
    float operator()(float x) const { return log_by_steps(x + ::sqrtf(x * x - 1.0f)); }
};

struct Atanh {
    float operator()(float x) const { return log_by_steps((1.0f + x) / (1.0f - x), 0.5f); }
};

struct Pow {
    float operator()(float base, float exponent) const {
        return power_by_steps(base, exponent, sign_of_power(static_cast<double>(exponent)));
    }
};

struct ConstantPow {
    float exponent;
    double sign;
    explicit ConstantPow(const Immediate* given)
        : exponent(static_cast<float>(given[0].f)), sign(sign_of_power(given[0].f)) {}
    float operator()(float x) const { return power_by_steps(x, exponent, sign); }
};

const Entry entries[] = {DMLGRAPH_UNARY_HALF(EXP, Exp) DMLGRAPH_UNARY_HALF(LOG, Log) DMLGRAPH_UNARY_HALF(
    ERF, Erf) DMLGRAPH_UNARY_HALF(ASINH, Asinh) DMLGRAPH_UNARY_HALF(ACOSH, Acosh) DMLGRAPH_UNARY_HALF(ATANH, Atanh)
                             DMLGRAPH_SLOW_BINARY_HALF(POW, Pow) DMLGRAPH_UNARY_HALF(CONSTANT_POW, ConstantPow)};

}  // namespace
}  // namespace half_functions

constexpr Entries half_functions_kernels = half_functions::entries;

}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
