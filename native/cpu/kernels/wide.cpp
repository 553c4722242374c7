// Double precision for the reductions of a row (means, deviations, norms), and conversions back to single precision.
#include "cpu/kernels/tables.h"
#include "cpu/kernels/vector_exp.h"

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
    double operator()(double x) const { return ::sqrt(x); }
};

struct Recip {
    double operator()(double x) const { return 1.0 / x; }
};

// log x = k ln 2 + log(1 + f), with 1 + f from √½ to √2: the polynomial in (f / (2 + f))² of Sun's fdlibm. The C
// libraries differ in the last bit.
struct Log {
    double operator()(double x) const {
        constexpr u64 root_of_half = 0x3fe6a09e00000000u, one = 0x3ff0000000000000u;  // bits of doubles
        const bool subnormal = x < 0x1p-1022;
        const u64 bits = bits_of(subnormal ? x * 0x1p54 : x) + (one - root_of_half);
        const double k = static_cast<double>(static_cast<i32>(bits >> 52) - (subnormal ? 1023 + 54 : 1023));
        const double f = double_of((bits & 0xfffffffffffffu) + root_of_half) - 1.0;
        const double half_square = 0.5 * f * f, s = f / (2.0 + f), z = s * s;
        const double rest =
            z * polynomial(z, 0x1.5555555555593p-1, 0x1.999999997fa04p-2, 0x1.2492494229359p-2, 0x1.c71c51d8e78afp-3,
                           0x1.7466496cb03dep-3, 0x1.39a09d078c69fp-3, 0x1.2f112df3e5244p-3);
        const double log = s * (half_square + rest) + k * 0x1.a39ef35793c76p-33 - half_square + f + k * 0x1.62e42feep-1;
        const double bounded = x == infinity ? x : log;
        return x > 0.0 ? bounded : x == 0.0 ? -infinity : not_a_number;
    }
};

struct ScaleBias {
    double scale, bias;
    explicit ScaleBias(const Immediate* given) : scale(given[0].f), bias(given[1].f) {}
    double operator()(double x) const { return x * scale + bias; }
};

// In float32, which takes a third of the time: the nearest number, which leaves nothing to round where it is close to
// a, then the rest.
struct SubtractWide {
    float operator()(float a, double b) const {
        const float near = static_cast<float>(b);
        const bool is_finite = near - near == 0.0f;
        return (a - near) - (is_finite ? static_cast<float>(b - static_cast<double>(near)) : 0.0f);
    }
};

// An operand of vectors: packed, or one number repeated.
struct Packed {
    const float* x;
    DMLGRAPH_INLINE Vector at(std::size_t i) const { return load(x + i); }
    DMLGRAPH_INLINE Vector part_at(std::size_t i, Part part) const { return load_part(x + i, part, repeated(0.0f)); }
};
struct Repeated {
    Vector x;
    DMLGRAPH_INLINE Vector at(std::size_t) const { return x; }
    DMLGRAPH_INLINE Vector part_at(std::size_t, Part) const { return x; }
};

// As `exp`, but for results up to 1.
template <class A, class B>
void exp_differences(float* out, const A& a, const B& b, std::size_t count) {
    constexpr int together = 4;
    std::size_t i = 0;
    for (; i + together * lanes <= count; i += together * lanes) {
        Vector x[together];
        DMLGRAPH_UNROLL
        for (int k = 0; k < together; ++k) {
            x[k] = difference(a.at(i + k * lanes), b.at(i + k * lanes));
        }
        exp_below_zero(x);
        DMLGRAPH_UNROLL
        for (int k = 0; k < together; ++k) {
            store(out + i + k * lanes, x[k]);
        }
    }
    for (; i + lanes <= count; i += lanes) {
        Vector x[1] = {difference(a.at(i), b.at(i))};
        exp_below_zero(x);
        store(out + i, x[0]);
    }
    if (i < count) {
        const Part rest = part(0, static_cast<int>(count - i));
        Vector x[1] = {difference(a.part_at(i, rest), b.part_at(i, rest))};
        exp_below_zero(x);
        store_part(out + i, x[0], rest);
    }
}

void exp_below(const Call& call) noexcept {
    const auto* a = static_cast<const float*>(call.in[0].data);
    const auto* b = static_cast<const float*>(call.in[1].data);
    auto* out = static_cast<float*>(call.out);
    const auto with = [&](const auto& left) {
        if (call.in[1].scalar) {
            exp_differences(out, left, Repeated{repeated(*b)}, call.count);
        } else {
            exp_differences(out, left, Packed{b}, call.count);
        }
    };
    if (call.in[0].scalar) {
        with(Repeated{repeated(*a)});
    } else {
        with(Packed{a});
    }
}

const Entry entries[] = {
    DMLGRAPH_BINARY(double, ADD, Add) DMLGRAPH_BINARY(double, MULTIPLY, Multiply) DMLGRAPH_BINARY(
        double, DIVIDE, Divide) DMLGRAPH_UNARY(double, SQRT, Sqrt) DMLGRAPH_UNARY(double, RECIP, Recip)
        DMLGRAPH_UNARY(double, LOG, Log) DMLGRAPH_UNARY(double, SCALE_BIAS, ScaleBias){
            Opcode::SUBTRACT_WIDE, DataType::float64, DataType::float32, binary<SubtractWide, float, float, double>},
    {Opcode::EXP_BELOW, DataType::float32, DataType::float32, exp_below},
};

}  // namespace
}  // namespace wide

constexpr Entries wide_kernels = wide::entries;

}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
