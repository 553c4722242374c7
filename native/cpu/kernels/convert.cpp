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
    // Rounded once to float16: the bits that float32 cannot hold set its last bit, so that the second rounding is
    // right.
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
void number_to_half(const Call& call) noexcept {
    alignas(64) float single[chunk];
    const auto* x = static_cast<const In*>(call.in[0].data);
    auto* out = static_cast<Half*>(call.out);
    if constexpr (is_same<In, float>) {
        if (!call.in[0].scalar &&
            call.in[0].data != call.out) {  // results that replace the operand go through other memory
            return to_half(x, out, call.count);
        }
    }
    for (std::size_t start = 0; start < call.count; start += chunk) {
        const std::size_t count = call.count - start < chunk ? call.count - start : chunk;
        const Operand part{call.in[0].scalar ? x : x + start, call.in[0].scalar};
        unary<Cast<float>, float, In>({single, &part, count, nullptr, 0});
        to_half(single, out + start, count);
    }
}

#define TO(out, in) {Opcode::CONVERT, data_type<in>, data_type<out>, unary<Cast<out>, out, in>},
#define FROM(in)                                                                                       \
    DMLGRAPH_INTEGERS(TO, in)                                                                          \
    TO(float, in)                                                                                      \
    TO(double, in)                                                                                     \
    {Opcode::CONVERT, data_type<in>, DataType::float16, number_to_half<in>},
#define FROM_HALF(out, ...) \
    {Opcode::CONVERT, DataType::float16, data_type<out>, in_half<unary<Cast<out>, out, float>, 1, out>},

const Entry entries[] = {
    FROM(i8) FROM(i16) FROM(i32) FROM(i64) FROM(u8) FROM(u16) FROM(u32) FROM(u64) FROM(float)
        DMLGRAPH_INTEGERS(TO, double) TO(float, double)
            TO(double, double){Opcode::CONVERT, DataType::float64, DataType::float16, unary<Cast<Half>, Half, double>},
    DMLGRAPH_INTEGERS(FROM_HALF, ) FROM_HALF(float)
        FROM_HALF(double){Opcode::CONVERT, DataType::float16, DataType::float16, unary<Cast<u16>, u16, u16>},
};

}  // namespace
}  // namespace convert

constexpr Entries convert_kernels = convert::entries;

}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
