// Sums, products, quotients of floats, extremes, bounds.
#include "cpu/kernels/division.h"
#include "cpu/kernels/loops.h"
#include "cpu/kernels/math.h"
#include "cpu/kernels/tables.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace arithmetic {
namespace {

struct Add {
    template <class T>
    T operator()(T a, T b) const {
        return static_cast<T>(a + b);
    }
};

struct Subtract {
    template <class T>
    T operator()(T a, T b) const {
        return static_cast<T>(a - b);
    }
};

struct Multiply {
    float operator()(float a, float b) const { return a * b; }
    template <class T>
    T operator()(T a, T b) const {
        return static_cast<T>(u64{a} * b);
    }
    u16 operator()(u16 a, u16 b) const { return static_cast<u16>(u32{a} * b); }
    u32 operator()(u32 a, u32 b) const { return a * b; }
};

struct Divide {
    float operator()(float a, float b) const { return a / b; }
};

void divide(const Call& call) noexcept {
    constexpr int together = 4;
    const auto* const x = static_cast<const float*>(call.in[0].data);
    const float divisor = *static_cast<const float*>(call.in[1].data);
    if (call.in[0].scalar || !call.in[1].scalar || !Reciprocal::fits(divisor)) {
        return binary<Divide, float, float>(call);
    }
    const Reciprocal reciprocal(divisor, 1.0f / divisor);
    auto* const out = static_cast<float*>(call.out);
    std::size_t i = 0;
    for (; i + together * lanes <= call.count; i += together * lanes) {
        Vector a[together];
        Reciprocal here = reciprocal;
        DMLGRAPH_UNROLL
        for (int k = 0; k < together; ++k) {
            a[k] = load(x + i + k * lanes);
            here.look_at(a[k]);
        }
        if (!here.fits_all()) {
            DMLGRAPH_LOOP
            for (std::size_t k = i; k < i + together * lanes; ++k) {
                out[k] = x[k] / divisor;
            }
            continue;
        }
        DMLGRAPH_UNROLL
        for (int k = 0; k < together; ++k) {
            store(out + i + k * lanes, here.quotient(a[k]));
        }
    }
    DMLGRAPH_LOOP
    for (; i < call.count; ++i) {
        out[i] = x[i] / divisor;
    }
}

struct Max {
    template <class T>
    T operator()(T a, T b) const {
        return (a > b) | (b != b) ? a : b;
    }
};

struct Min {
    template <class T>
    T operator()(T a, T b) const {
        return (a < b) | (b != b) ? a : b;
    }
};

struct Mean {
    float operator()(float a, float b) const { return (a + b) * 0.5f; }
    u32 operator()(u32 a, u32 b) const { return (a + b) >> 1; }
    i32 operator()(i32 a, i32 b) const {
        const u32 sum = static_cast<u32>(a) + static_cast<u32>(b);
        return static_cast<i32>(sum + (sum >> 31)) >> 1;
    }
};

struct DifferenceSquare {
    template <class T>
    T operator()(T a, T b) const {
        return (a - b) * (a - b);
    }
};

struct Abs {
    float operator()(float x) const { return float_of(bits_of(x) & 0x7fffffffu); }
    template <class T>
    T operator()(T x) const {
        const T opposite = static_cast<T>(Word<T>{0} - static_cast<Word<T>>(x));
        const T result = x < 0 ? opposite : x;
        return sizeof(T) == 1 && result < 0 ? greatest<T> : result;
    }
};

struct Negate {
    float operator()(float x) const { return float_of(bits_of(x) ^ 0x80000000u); }
    template <class T>
    T operator()(T x) const {
        const T opposite = static_cast<T>(Word<T>{0} - static_cast<Word<T>>(x));
        return sizeof(T) == 1 && x == least<T> ? greatest<T> : opposite;
    }
};

struct Sign {
    template <class T>
    T operator()(T x) const {
        return x > T{0} ? T{1} : x < T{0} ? static_cast<T>(-1) : T{0};
    }
};

struct Recip {
    float operator()(float x) const { return 1.0f / x; }
};

struct Sqrt {
    float operator()(float x) const { return ::sqrtf(x); }
};

struct Relu {
    template <class T>
    T operator()(T x) const {
        if constexpr (std::is_floating_point_v<T>)
            return positive_part(x);
        else
            return x > T{0} ? x : T{0};
    }
};

template <class T>
T immediate(const Immediate& given) {
    return is_float<T> ? static_cast<T>(given.f) : static_cast<T>(given.i);
}

template <class T>
struct Clip {
    T low, high;
    explicit Clip(const Immediate* given) : low(immediate<T>(given[0])), high(immediate<T>(given[1])) {}
    T operator()(T x) const {
        // A bound that is NaN is ignored too.
        const T below = x < high ? x : high;
        const T bounded = high != high ? x : below;
        const T above = bounded >= low ? bounded : low;
        return low != low ? bounded : above;
    }
};

template <class T>
struct Threshold {
    T low;
    explicit Threshold(const Immediate* given) : low(immediate<T>(given[0])) {}
    T operator()(T x) const { return (x > low) | (low != low) ? x : low; }
};

// Integers are scaled in float32 and saturate to 32 bits.
struct ScaleBias {
    float scale, bias;
    explicit ScaleBias(const Immediate* given)
        : scale(static_cast<float>(given[0].f)), bias(static_cast<float>(given[1].f)) {}
    float operator()(float x) const { return x * scale + bias; }
    template <class T>
    auto operator()(T x) const {
        if constexpr (is_signed_integer<T>) {
            return saturate<i32>(cast<float>(x) * scale + bias);
        } else {
            return saturate<u32>(cast<float>(x) * scale + bias);
        }
    }
};

#define SCALE_BIAS(type, wide) {Opcode::SCALE_BIAS, data_type<type>, data_type<wide>, unary<ScaleBias, wide, type>},
#define CLIP(type, opcode) DMLGRAPH_UNARY(type, opcode, Clip<type>)

const Entry entries[] = {
    DMLGRAPH_BINARY_FLOATS(ADD, Add) DMLGRAPH_INTEGERS(DMLGRAPH_BINARY_WORD, ADD, Add)
        DMLGRAPH_BINARY_FLOATS(SUBTRACT, Subtract) DMLGRAPH_INTEGERS(DMLGRAPH_BINARY_WORD, SUBTRACT, Subtract)
            DMLGRAPH_BINARY_FLOATS(MULTIPLY, Multiply) DMLGRAPH_INTEGERS(DMLGRAPH_BINARY_WORD, MULTIPLY, Multiply){
                Opcode::DIVIDE, DataType::float32, DataType::float32, divide},
    {Opcode::DIVIDE, DataType::float16, DataType::float16, in_half<divide, 2, Half>},
    DMLGRAPH_BINARY_FLOATS(MAX, Max) DMLGRAPH_INTEGERS(DMLGRAPH_BINARY, MAX, Max) DMLGRAPH_BINARY_FLOATS(MIN, Min)
        DMLGRAPH_INTEGERS(DMLGRAPH_BINARY, MIN, Min) DMLGRAPH_BINARY_FLOATS(MEAN, Mean) DMLGRAPH_BINARY(i32, MEAN, Mean)
            DMLGRAPH_BINARY(u32, MEAN, Mean) DMLGRAPH_BINARY_FLOATS(DIFFERENCE_SQUARE, DifferenceSquare)
                DMLGRAPH_BINARY_WORD(i32, DIFFERENCE_SQUARE, DifferenceSquare)
                    DMLGRAPH_BINARY_WORD(u32, DIFFERENCE_SQUARE, DifferenceSquare) DMLGRAPH_UNARY_FLOATS(ABS, Abs)
                        DMLGRAPH_SIGNED(DMLGRAPH_UNARY, ABS, Abs) DMLGRAPH_UNARY_FLOATS(NEGATE, Negate) DMLGRAPH_SIGNED(
                            DMLGRAPH_UNARY, NEGATE, Negate) DMLGRAPH_UNARY_FLOATS(SIGN, Sign)
                            DMLGRAPH_INTEGERS(DMLGRAPH_UNARY, SIGN, Sign) DMLGRAPH_UNARY_FLOATS(RECIP, Recip)
                                DMLGRAPH_UNARY_FLOATS(SQRT, Sqrt) DMLGRAPH_UNARY_FLOATS(RELU, Relu) DMLGRAPH_SIGNED(
                                    DMLGRAPH_UNARY, RELU, Relu) DMLGRAPH_UNARY_FLOATS(CLIP, Clip<float>)
                                    DMLGRAPH_INTEGERS(CLIP, CLIP) DMLGRAPH_UNARY_FLOATS(THRESHOLD, Threshold<float>)
                                        DMLGRAPH_UNARY(i8, THRESHOLD, Threshold<i8>) DMLGRAPH_UNARY(
                                            u8, THRESHOLD, Threshold<u8>) DMLGRAPH_UNARY(i32, THRESHOLD, Threshold<i32>)
                                            DMLGRAPH_UNARY(u32, THRESHOLD, Threshold<u32>)
                                                DMLGRAPH_UNARY_FLOATS(SCALE_BIAS, ScaleBias) SCALE_BIAS(i8, i32)
                                                    SCALE_BIAS(i16, i32) SCALE_BIAS(i32, i32) SCALE_BIAS(u8, u32)
                                                        SCALE_BIAS(u16, u32) SCALE_BIAS(u32, u32)};

}  // namespace
}  // namespace arithmetic

constexpr Entries arithmetic_kernels = arithmetic::entries;

}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
