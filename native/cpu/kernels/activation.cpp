// Activations that work element by element.
#include "cpu/kernels/exponential.h"
#include "cpu/kernels/segments.h"
#include "cpu/kernels/tables.h"
#include "cpu/kernels/vector_loop.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace activation {
namespace {

// FLOAT attributes.
struct Attribute {
    float first;
    explicit Attribute(const Immediate* given) : first(static_cast<float>(given[0].f)) {}
};

struct Attributes {
    float first, second;
    explicit Attributes(const Immediate* given)
        : first(static_cast<float>(given[0].f)), second(static_cast<float>(given[1].f)) {}
};

struct Linear : Attributes {
    using Attributes::Attributes;
    float operator()(float x) const { return fused(first, x, second); }
};

struct LeakyRelu : Attribute {
    using Attribute::Attribute;
    float operator()(float x) const { return x >= 0.0f ? x : first * x; }
};

struct ThresholdedRelu : Attribute {
    using Attribute::Attribute;
    float operator()(float x) const { return x <= first ? 0.0f : x; }
};

struct AboveOrZero : Attribute {
    using Attribute::Attribute;
    float operator()(float x) const { return x > first ? x : 0.0f; }
};

struct ParameterizedRelu {
    float operator()(float x, float slope) const { return x >= 0.0f ? x : x * slope; }
    template <class T>
    T operator()(T x, T slope) const {
        return x >= T{0} ? x : static_cast<T>(static_cast<u32>(x) * static_cast<u32>(slope));
    }
};

struct Elu : Attribute {
    using Attribute::Attribute;
    float operator()(float x) const { return x >= 0.0f ? x : first * expm1(x); }
};

struct Celu : Attribute {
    using Attribute::Attribute;
    float operator()(float x) const {
        const float below = first * expm1(x / first);
        return positive_part(x) + (below < 0.0f ? below : 0.0f);
    }
};

// alpha, gamma
struct ScaledElu : Attributes {
    using Attributes::Attributes;
    float operator()(float x) const { return second * (x >= 0.0f ? x : first * expm1(x)); }
};

struct Sigmoid {
    Vector operator()(Vector x) const { return sigmoid(x); }
};

// alpha · x + beta, rounded once, between 0 and 1; NaN becomes 0.
struct HardSigmoid : Attributes {
    using Attributes::Attributes;
    Vector operator()(Vector x) const {
#if defined(DMLGRAPH_FMA)
        const Vector line = product_sum(repeated(first), x, repeated(second));
#else
        float numbers[lanes];
        store(numbers, x);
        for (float& each : numbers) {
            each = fused(first, each, second);
        }
        const Vector line = load(numbers);
#endif
        return lesser(greater(line, repeated(0.0f)), repeated(1.0f));
    }
};

struct ScaledTanh : Attributes {
    using Attributes::Attributes;
    Vector operator()(Vector x) const { return times(repeated(first), tanh(times(repeated(second), x))); }
};

// The rounding error of the product a * b, if its exponential is neither zero nor infinite.
DMLGRAPH_INLINE float error_that_counts(float a, float b, float product) {
    return magnitude(product) < 128.0f ? product_error(a, b, product) : 0.0f;
}

struct Softplus : Attribute {
    using Attribute::Attribute;
    float operator()(float x) const {
        const float steep = first * x;
        return (steep > 0.0f ? x : 0.0f) + softplus_rest(steep, error_that_counts(first, x, steep)) / first;
    }
};

struct ParametricSoftplus : Attributes {
    using Attributes::Attributes;
    float operator()(float x) const {
        const float steep = second * x;
        // In double the product does not overflow.
        const double line = static_cast<double>(first) * (static_cast<double>(second) * static_cast<double>(x));
        const float rest = softplus_rest(steep, error_that_counts(second, x, steep));
        // An infinite alpha · 0 counts below zero only.
        const float curved = steep > 0.0f && rest == 0.0f ? 0.0f : first * rest;
        return (steep > 0.0f ? static_cast<float>(line) : 0.0f) + curved;
    }
};

struct Softsign {
    float operator()(float x) const { return x / (1.0f + magnitude(x)); }
};

// bias, threshold
struct Shrink : Attributes {
    using Attributes::Attributes;
    float operator()(float x) const { return x > second ? x - first : x < -second ? x + first : 0.0f; }
};

struct Gelu {
    Vector operator()(Vector x) const { return gelu(x); }
};

struct Swish : Attribute {
    using Attribute::Attribute;
    Vector operator()(Vector x) const {
        if (first == 1.0f) {
            return times(x, sigmoid(x));
        }
        const Vector steep = times(repeated(first), x);
        // The rounding error of the product, where its exponential is neither zero nor infinite.
        const Vector low = error_of_product(repeated(first), x, steep);
        return times(x,
                     sigmoid_of_sum(steep, selected(is_less(magnitude(steep), repeated(128.0f)), low, repeated(0.0f))));
    }
};

struct HardSwish : HardSigmoid {
    using HardSigmoid::HardSigmoid;
    Vector operator()(Vector x) const { return times(x, HardSigmoid::operator()(x)); }
};

const Entry entries[] = {
    DMLGRAPH_UNARY_FLOATS(LINEAR, Linear) DMLGRAPH_UNARY_FLOATS(LEAKY_RELU, LeakyRelu) DMLGRAPH_UNARY_FLOATS(
        THRESHOLDED_RELU, ThresholdedRelu) DMLGRAPH_UNARY_FLOATS(ABOVE_OR_ZERO, AboveOrZero)
        DMLGRAPH_SLOW_BINARY_FLOATS(PARAMETERIZED_RELU, ParameterizedRelu) DMLGRAPH_SLOW_BINARY(
            i8, PARAMETERIZED_RELU, ParameterizedRelu) DMLGRAPH_SLOW_BINARY(i16, PARAMETERIZED_RELU, ParameterizedRelu)
            DMLGRAPH_SLOW_BINARY(i32, PARAMETERIZED_RELU, ParameterizedRelu) DMLGRAPH_UNARY_FLOATS(ELU, Elu)
                DMLGRAPH_UNARY_FLOATS(CELU, Celu) DMLGRAPH_UNARY_FLOATS(SCALED_ELU, ScaledElu)
                    DMLGRAPH_UNARY_OF_VECTORS_FLOATS(SIGMOID, Sigmoid) DMLGRAPH_UNARY_OF_VECTORS_FLOATS(
                        HARD_SIGMOID, HardSigmoid) DMLGRAPH_UNARY_OF_VECTORS_FLOATS(SCALED_TANH, ScaledTanh)
                        DMLGRAPH_UNARY_FLOATS(SOFTPLUS, Softplus) DMLGRAPH_UNARY_FLOATS(
                            PARAMETRIC_SOFTPLUS, ParametricSoftplus) DMLGRAPH_UNARY_FLOATS(SOFTSIGN, Softsign)
                            DMLGRAPH_UNARY_FLOATS(SHRINK, Shrink) DMLGRAPH_UNARY_OF_VECTORS_FLOATS(GELU, Gelu)
                                DMLGRAPH_UNARY_OF_VECTORS_FLOATS(SWISH, Swish)
                                    DMLGRAPH_UNARY_OF_VECTORS_FLOATS(HARD_SWISH, HardSwish)};

}  // namespace
}  // namespace activation

constexpr Entries activation_kernels = activation::entries;

}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
