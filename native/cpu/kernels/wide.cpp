// Double precision for the reductions of a row (means, deviations, norms), and conversions back to single precision.
#include "cpu/kernels/exponential.h"

#include "cpu/kernels/tables.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace wide {
namespace {

struct Add {
    double operator()(double a, double b) const { return a + b; }
};

struct Multiply {
    double operator()(double a, double b) const { return a * b; }
};

struct Divide {
    double operator()(double a, double b) const { return a / b; }
};

struct Sqrt {
    double operator()(double x) const { return __builtin_sqrt(x); }
};

struct Recip {
    double operator()(double x) const { return 1.0 / x; }
};

struct Log {
    double operator()(double x) const { return ::log(x); }
};

struct ScaleBias {
    double scale, bias;
    explicit ScaleBias(const Immediate* given) : scale(given[0].f), bias(given[1].f) {}
    double operator()(double x) const { return x * scale + bias; }
};

struct SubtractWide {
    float operator()(float a, double b) const { return static_cast<float>(static_cast<double>(a) - b); }
};

// As `exp`, but for results up to 1: large results need no care. It multiplies by 2^n in two steps, the second of which
// makes small results subnormal.
struct ExpBelow {
    float operator()(float a, float b) const {
        constexpr float whole = 0x1.8p23f + 191.0f;  // 127 + 64: the exponent's bits of 2^(n + 64)
        const float x = a - b < -104.0f ? -104.0f : a - b;
        const float shifted = multiply_add(x, log2_e, whole);
        const float n = shifted - whole;
        const float r = multiply_add(n, -ln2_low, multiply_add(n, -ln2_high, x));
        const float e = multiply_add(r, multiply_add(r, exp_rest(r), 1.0f), 1.0f);
        return e * float_of(bits_of(shifted) << 23) * 0x1p-64f;
    }
};

const Entry entries[] = {
    DMLGRAPH_BINARY(double, ADD, Add)
    DMLGRAPH_BINARY(double, MULTIPLY, Multiply)
    DMLGRAPH_BINARY(double, DIVIDE, Divide)
    DMLGRAPH_UNARY(double, SQRT, Sqrt)
    DMLGRAPH_UNARY(double, RECIP, Recip)
    DMLGRAPH_UNARY(double, LOG, Log)
    DMLGRAPH_UNARY(double, SCALE_BIAS, ScaleBias)
    {Opcode::SUBTRACT_WIDE, DataType::float64, DataType::float32, binary<SubtractWide, float, float, double>},
    DMLGRAPH_BINARY(float, EXP_BELOW, ExpBelow)
};

}  // namespace
}  // namespace wide

Entries wide_kernels() { return wide::entries; }

}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
