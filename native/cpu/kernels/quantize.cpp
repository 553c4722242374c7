// Quantization: an integer q stands for the number (q - zero point) * scale.
#include "cpu/kernels/cast.h"
#include "cpu/kernels/math.h"
#include "cpu/kernels/rounded_byte.h"
#include "cpu/kernels/tables.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace quantize {
namespace {

// clamp(round(x / scale) + zero point).
template <class Out>
struct Quantize {
    Out operator()(float x, float scale) const { return rounded_to(x / scale, Out{0}); }
    Out operator()(float x, float scale, Out zero_point) const { return rounded_to(x / scale, zero_point); }
};

// clamp(round(x * factor) + zero point).
template <class Out>
struct Requantize {
    template <class In>
    Out operator()(In x, float factor, Out zero_point) const {
        return rounded_to(static_cast<float>(x) * factor, zero_point);
    }
};

// With one zero point, as almost always, and one factor for all numbers or one for each.
template <class Out, class In>
void requantize(const Call& call) noexcept {
    if (call.in[0].scalar || !call.in[2].scalar) {
        return ternary<Requantize<Out>, Out, In, float, Out>(call);
    }
    const auto* x = static_cast<const In*>(call.in[0].data);
    const auto* factors = static_cast<const float*>(call.in[1].data);
    auto* out = static_cast<Out*>(call.out);
    const Out zero_point = *static_cast<const Out*>(call.in[2].data);
    const std::size_t count = call.count;
    if (call.in[1].scalar) {
        const float factor = factors[0];
        DMLGRAPH_LOOP
        for (std::size_t i = 0; i < count; ++i) {
            out[i] = Requantize<Out>()(x[i], factor, zero_point);
        }
        return;
    }
    DMLGRAPH_LOOP
    for (std::size_t i = 0; i < count; ++i) {
        out[i] = Requantize<Out>()(x[i], factors[i], zero_point);
    }
}

struct AddToFloat {
    float operator()(i32 a, i32 b) const { return static_cast<float>(static_cast<double>(a) + static_cast<double>(b)); }
};

// Integers beyond 2^24 are rounded before they are subtracted.
struct Dequantize {
    template <class In>
    float operator()(In x, float scale) const {
        return cast<float>(x) * scale;
    }
    template <class In>
    float operator()(In x, float scale, In zero_point) const {
        return (cast<float>(x) - cast<float>(zero_point)) * scale;
    }
};

#define QUANTIZE(type)                                                                                           \
    {Opcode::QUANTIZE, DataType::float32, data_type<type>, binary<Quantize<type>, type, float>},                 \
    {Opcode::QUANTIZE_FROM, DataType::float32, data_type<type>, ternary<Quantize<type>, type, float, float, type>},
#define REQUANTIZE(type)                                                                                         \
    {Opcode::REQUANTIZE, DataType::float32, data_type<type>, requantize<type, float>},                     \
    {Opcode::REQUANTIZE, DataType::int32, data_type<type>, requantize<type, i32>},
#define DEQUANTIZE(type)                                                                                         \
    {Opcode::DEQUANTIZE, data_type<type>, DataType::float32, binary<Dequantize, float, type, float>},            \
    {Opcode::DEQUANTIZE_FROM, data_type<type>, DataType::float32, ternary<Dequantize, float, type, float, type>},

const Entry entries[] = {QUANTIZE(i8) QUANTIZE(u8) REQUANTIZE(i8) REQUANTIZE(u8){
                             Opcode::ADD_TO_FLOAT, DataType::int32, DataType::float32, binary<AddToFloat, float, i32>},
                         DEQUANTIZE(i8) DEQUANTIZE(i16) DEQUANTIZE(i32) DEQUANTIZE(u8) DEQUANTIZE(u16) DEQUANTIZE(u32)};

}  // namespace
}  // namespace quantize

constexpr Entries quantize_kernels = quantize::entries;

}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
