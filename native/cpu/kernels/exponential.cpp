// Exponentials, logarithms, powers, hyperbolic functions and the error function.
#include "cpu/kernels/exponential.h"

#include "cpu/kernels/segments.h"
#include "cpu/kernels/tables.h"
#include "cpu/kernels/vector_loop.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace exponential {
namespace {

#if defined(__AVX512F__)
struct Exp {
    Vector operator()(Vector x) const { return exp(x); }
};
constexpr auto exp_kernel = unary_of_vectors<Exp>;
#else
struct Exp {
    float operator()(float x) const { return exp(x); }
};
constexpr auto exp_kernel = unary<Exp, float, float>;
#endif

struct Log {
    float operator()(float x) const { return log(x); }
};

struct Erf {
    Vector operator()(Vector x) const { return erf(x); }
};

struct Tanh {
    Vector operator()(Vector x) const { return tanh(x); }
};

// e^(|x| - ln 2): half of e^|x|, which may be too large.
DMLGRAPH_INLINE float half_exp(float x) { return exp_sum(at_most(magnitude(x) - ln2_high, 89.0f), -ln2_low); }

// Up to 1 as x + x³ P(x²) (2^-34).
struct Sinh {
    float operator()(float x) const {
        const float h = half_exp(x);
        const float rest = polynomial(x * x, 0x1.555556p-3f, 0x1.111136p-7f, 0x1.9ffe12p-13f, 0x1.7a267cp-19f);
        const float inner = multiply_add(x * x * x, rest, x);
        return magnitude(x) < 1.0f ? inner : with_sign(h - 0.25f / h, x);
    }
};

struct Cosh {
    float operator()(float x) const {
        const float h = half_exp(x);
        return h + 0.25f / h;
    }
};

// Measured: these formulas in float32, evaluated literally.
struct Asinh {
    float operator()(float x) const { return log(x + ::sqrtf(x * x + 1.0f)); }
};

struct Acosh {
    float operator()(float x) const { return log(x + ::sqrtf(x * x - 1.0f)); }
};

struct Atanh {
    float operator()(float x) const { return 0.5f * log((1.0f + x) / (1.0f - x)); }
};

struct Pow {
    template <class T>
    T operator()(T base, T exponent) const {
        return static_cast<T>(power(base, exponent, sign_of_power(exponent)));
    }
};

struct ConstantPow {
    double exponent, sign;
    explicit ConstantPow(const Immediate* given) : exponent(given[0].f), sign(sign_of_power(exponent)) {}
    float operator()(float x) const { return static_cast<float>(power(x, exponent, sign)); }
};

// Functions of float16 that DirectML computes differently are in half_functions.cpp.
const Entry entries[] = {{Opcode::EXP, DataType::float32, DataType::float32, exp_kernel},
                         DMLGRAPH_UNARY(float, LOG, Log) DMLGRAPH_UNARY_OF_VECTORS(ERF, Erf)
                             DMLGRAPH_UNARY_OF_VECTORS_FLOATS(TANH, Tanh) DMLGRAPH_UNARY_FLOATS(SINH, Sinh)
                                 DMLGRAPH_UNARY_FLOATS(COSH, Cosh) DMLGRAPH_UNARY(float, ASINH, Asinh)
                                     DMLGRAPH_UNARY(float, ACOSH, Acosh) DMLGRAPH_UNARY(float, ATANH, Atanh)
                                         DMLGRAPH_SLOW_BINARY(float, POW, Pow) DMLGRAPH_SLOW_BINARY(double, POW, Pow)
                                             DMLGRAPH_UNARY(float, CONSTANT_POW, ConstantPow)};

}  // namespace
}  // namespace exponential

constexpr Entries exponential_kernels = exponential::entries;

}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
