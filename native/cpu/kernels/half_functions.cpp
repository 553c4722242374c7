// Functions of float16 tensors as DirectML computes them: in float16 or in float32; every step is rounded to that type.
//
// The formulas are those of dmlgraph/operators/common/shader.py and of the operators' `half`. FLOAT attributes are already
// rounded to float16. A kernel's result is rounded to float16 when it is stored.
#include "cpu/kernels/exponential.h"
#include "cpu/kernels/tables.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace half_functions {
namespace {

// The type to which the steps are rounded, and its constants.
struct Single {
    static constexpr float log2_e = 0x1.715476p+0f, ln2 = 0x1.62e43p-1f;
    DMLGRAPH_INLINE static float round(float x) { return x; }
};

struct HalfSteps {
    static constexpr float log2_e = 0x1.714p+0f;
    // Rounds as half_of, but stays a float32. It has fewer branches, because loops with many do not vectorise.
    DMLGRAPH_INLINE static float round(float x) {
        const u32 magnitude = bits_of(x) & 0x7fffffffu;
        const u32 normal = (magnitude + 0xfffu + (magnitude >> 13 & 1u)) & ~0x1fffu;
        const u32 subnormal = bits_of(float_of(magnitude) + 0.5f - 0.5f);
        const u32 finite = magnitude < 0x38800000u ? subnormal : normal;
        const u32 special = magnitude > 0x7f800000u ? magnitude : 0x7f800000u;
        return float_of((bits_of(x) & 0x80000000u) | (finite >= 0x47800000u ? special : finite));
    }
};

template <class Steps>
DMLGRAPH_INLINE float exp2_by_steps(float x) {
    return Steps::round(static_cast<float>(exp2(static_cast<double>(x))));
}

template <class Steps>
DMLGRAPH_INLINE float exp_by_steps(float x) {
    return exp2_by_steps<Steps>(Steps::round(x * Steps::log2_e));
}

// e^(factor · x).
template <class Steps>
DMLGRAPH_INLINE float exp_by_steps(float x, float factor) {
    return exp2_by_steps<Steps>(Steps::round(Steps::round(x * Steps::log2_e) * factor));
}

DMLGRAPH_INLINE float log2_of(float x) {
    const float logarithm = static_cast<float>(log2(static_cast<double>(magnitude(x))));
    return x < 0.0f ? not_a_number : logarithm;
}

// factor · ln x.
DMLGRAPH_INLINE float log_by_steps(float x, float factor = 1.0f) { return log2_of(x) * (factor * Single::ln2); }

// tanh from e^-2x, and the logistic function from e^-x.
template <class Steps>
DMLGRAPH_INLINE float tanh_by_steps(float e) {
    return Steps::round(Steps::round(2.0f / Steps::round(e + 1.0f)) - 1.0f);
}

DMLGRAPH_INLINE float sigmoid_by_steps(float e) { return HalfSteps::round(1.0f / HalfSteps::round(e + 1.0f)); }

// Abramowitz and Stegun, 7.1.26.
DMLGRAPH_INLINE float erf_by_steps(float x) {
    const float a = magnitude(x);
    const float t = 1.0f / (a * 0.3275911f + 1.0f);
    float total = 1.061405429f;
    total = total * t + -1.453152027f;
    total = total * t + 1.421413741f;
    total = total * t + -0.284496736f;
    total = total * t + 0.254829592f;
    const float power = static_cast<float>(exp2(static_cast<double>(a * a * -Single::log2_e)));
    const float sign = x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : 0.0f;
    return (1.0f - power * t * total) * sign;
}

// Infinite beyond the greatest float16, even slightly.
DMLGRAPH_INLINE float power_by_steps(float base, float exponent, double sign) {
    const float result = static_cast<float>(exp2(static_cast<double>(exponent * log2_of(magnitude(base)))));
    const float bounded = result > 65504.0f ? infinity : result;
    return base < 0.0f ? static_cast<float>(sign) * bounded : bounded;
}

// max(0, min(x, 1)); 0 for NaN.
DMLGRAPH_INLINE float between_0_and_1(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }

// e^x - 1.
DMLGRAPH_INLINE float below_exp(float x) { return HalfSteps::round(exp_by_steps<HalfSteps>(x) - 1.0f); }

struct One {
    float first;
    explicit One(const Immediate* given) : first(static_cast<float>(given[0].f)) {}
};

struct Two {
    float first, second;
    explicit Two(const Immediate* given)
        : first(static_cast<float>(given[0].f)), second(static_cast<float>(given[1].f)) {}
    DMLGRAPH_INLINE float line(float x) const { return HalfSteps::round(HalfSteps::round(first * x) + second); }
};

struct Exp {
    float operator()(float x) const { return exp_by_steps<Single>(x); }
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

struct Tanh {
    float operator()(float x) const { return tanh_by_steps<Single>(exp_by_steps<Single>(-2.0f * x)); }
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

struct Linear : Two {
    using Two::Two;
    float operator()(float x) const { return line(x); }
};

struct Elu : One {
    using One::One;
    float operator()(float x) const { return x >= 0.0f ? x : first * below_exp(x); }
};

struct Celu : One {
    using One::One;
    float operator()(float x) const {
        const float below = HalfSteps::round(below_exp(HalfSteps::round(x / first)) * first);
        return (x > 0.0f ? x : 0.0f) + (below < 0.0f ? below : 0.0f);
    }
};

// alpha, gamma
struct ScaledElu : Two {
    using Two::Two;
    float operator()(float x) const {
        return (x >= 0.0f ? x : HalfSteps::round(first * below_exp(x))) * second;
    }
};

struct Sigmoid {
    float operator()(float x) const { return sigmoid_by_steps(exp_by_steps<HalfSteps>(-x)); }
};

struct HardSigmoid : Two {
    using Two::Two;
    float operator()(float x) const { return between_0_and_1(line(x)); }
};

struct ScaledTanh : Two {
    using Two::Two;
    float operator()(float x) const {
        return tanh_by_steps<HalfSteps>(exp_by_steps<HalfSteps>(-2.0f * x, second)) * first;
    }
};

inline constexpr float softplus_line = 88.0f;  // linear from here on: e^89 is infinite in float32

struct Softplus : One {
    using One::One;
    float operator()(float x) const {
        const float steep = first * x;
        const float bent = log_by_steps(exp_by_steps<Single>(steep) + 1.0f) / first;
        return steep > softplus_line ? x : bent;
    }
};

// alpha, beta
struct ParametricSoftplus : Two {
    using Two::Two;
    float operator()(float x) const {
        const float steep = second * x;
        const float bent = log_by_steps(exp_by_steps<Single>(x, second) + 1.0f, first);
        return steep > softplus_line ? steep * first : bent;
    }
};

struct Softsign {
    float operator()(float x) const { return x / HalfSteps::round(magnitude(x) + 1.0f); }
};

struct Gelu {
    float operator()(float x) const { return x * 0.5f * (erf_by_steps(x * 0x1.6a09e6p-1f) + 1.0f); }
};

struct Swish : One {
    using One::One;
    float operator()(float x) const { return sigmoid_by_steps(exp_by_steps<HalfSteps>(-x, first)) * x; }
};

struct HardSwish : Two {
    using Two::Two;
    float operator()(float x) const { return between_0_and_1(line(x)) * x; }
};

const Entry entries[] = {
    DMLGRAPH_UNARY_HALF(EXP, Exp)
    DMLGRAPH_UNARY_HALF(LOG, Log)
    DMLGRAPH_UNARY_HALF(ERF, Erf)
    DMLGRAPH_UNARY_HALF(TANH, Tanh)
    DMLGRAPH_UNARY_HALF(ASINH, Asinh)
    DMLGRAPH_UNARY_HALF(ACOSH, Acosh)
    DMLGRAPH_UNARY_HALF(ATANH, Atanh)
    DMLGRAPH_SLOW_BINARY_HALF(POW, Pow)
    DMLGRAPH_UNARY_HALF(CONSTANT_POW, ConstantPow)
    DMLGRAPH_UNARY_HALF(LINEAR, Linear)
    DMLGRAPH_UNARY_HALF(ELU, Elu)
    DMLGRAPH_UNARY_HALF(CELU, Celu)
    DMLGRAPH_UNARY_HALF(SCALED_ELU, ScaledElu)
    DMLGRAPH_UNARY_HALF(SIGMOID, Sigmoid)
    DMLGRAPH_UNARY_HALF(HARD_SIGMOID, HardSigmoid)
    DMLGRAPH_UNARY_HALF(SCALED_TANH, ScaledTanh)
    DMLGRAPH_UNARY_HALF(SOFTPLUS, Softplus)
    DMLGRAPH_UNARY_HALF(PARAMETRIC_SOFTPLUS, ParametricSoftplus)
    DMLGRAPH_UNARY_HALF(SOFTSIGN, Softsign)
    DMLGRAPH_UNARY_HALF(GELU, Gelu)
    DMLGRAPH_UNARY_HALF(SWISH, Swish)
    DMLGRAPH_UNARY_HALF(HARD_SWISH, HardSwish)
};

}  // namespace
}  // namespace half_functions

Entries half_functions_kernels() { return half_functions::entries; }

}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
