// CONVERT between all types.
#include "cpu/kernels/cast.h"
#include "cpu/kernels/tables.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace convert {
namespace {

template <class Out>
struct Cast {
    template <class In>
    Out operator()(In x) const {
        return cast<Out>(x);
    }
    // Rounded once to float16: the bits that float32 cannot hold set its last bit, so that the second rounding is right.
    Out operator()(double x) const
        requires is_same<Out, Half>
    {
        constexpr u64 cut = (u64{1} << 29) - 1;
        const u64 bits = bits_of(x);
        const u64 last = (bits & cut) != 0 ? cut + 1 : 0;
        return half_of(static_cast<float>(double_of((bits & ~cut) | last)));
    }
};

// Through float32, which holds all integers that are finite in float16.
template <class In>
void integer_to_half(const Call& call) noexcept {
    alignas(64) float single[chunk];
    const auto* x = static_cast<const In*>(call.in[0].data);
    auto* out = static_cast<Half*>(call.out);
    for (std::size_t start = 0; start < call.count; start += chunk) {
        const std::size_t count = call.count - start < chunk ? call.count - start : chunk;
        const Operand part{call.in[0].scalar ? x : x + start, call.in[0].scalar};
        unary<Cast<float>, float, In>({single, &part, count, nullptr, 0});
        to_half(single, out + start, count);
    }
}

// Results that replace the operand go through other memory.
void single_to_half(const Call& call) noexcept {
    if (call.in[0].scalar || call.in[0].data == call.out) {
        return integer_to_half<float>(call);
    }
    to_half(static_cast<const float*>(call.in[0].data), static_cast<Half*>(call.out), call.count);
}

#define TO(out, in) {Opcode::CONVERT, data_type<in>, data_type<out>, unary<Cast<out>, out, in>},
#define FROM(in)                                                                                       \
    DMLGRAPH_INTEGERS(TO, in)                                                                          \
    TO(float, in)                                                                                      \
    TO(double, in)
#define FROM_INTEGER(in) FROM(in) {Opcode::CONVERT, data_type<in>, DataType::float16, integer_to_half<in>},
#define FROM_HALF(out, ...) \
    {Opcode::CONVERT, DataType::float16, data_type<out>, in_half<unary<Cast<out>, out, float>, 1, out>},

const Entry entries[] = {
    FROM_INTEGER(i8) FROM_INTEGER(i16) FROM_INTEGER(i32) FROM_INTEGER(i64)
    FROM_INTEGER(u8) FROM_INTEGER(u16) FROM_INTEGER(u32) FROM_INTEGER(u64)
    FROM(float)
    {Opcode::CONVERT, DataType::float32, DataType::float16, single_to_half},
    DMLGRAPH_INTEGERS(TO, double)
    TO(float, double)
    TO(double, double)
    {Opcode::CONVERT, DataType::float64, DataType::float16, unary<Cast<Half>, Half, double>},
    DMLGRAPH_INTEGERS(FROM_HALF, )
    FROM_HALF(float)
    FROM_HALF(double)
    {Opcode::CONVERT, DataType::float16, DataType::float16, unary<Cast<u16>, u16, u16>},
};

}  // namespace
}  // namespace convert

Entries convert_kernels() { return convert::entries; }

}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
