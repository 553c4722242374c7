// Kernels that select or create values: copies, IF, gradients that pass or do not, sequences.
#include "cpu/kernels/cast.h"
#include "cpu/kernels/tables.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace select {
namespace {

struct Identity {
    template <class T>
    T operator()(T x) const {
        return x;
    }
};

struct If {
    template <class T>
    T operator()(u8 condition, T a, T b) const {
        return condition != 0 ? a : b;
    }
};

struct ReluGrad {
    template <class T>
    T operator()(T x, T gradient) const {
        return x > T{0} ? gradient : T{0};
    }
};

template <class T>
struct ClipGrad {
    T low, high;
    explicit ClipGrad(const Immediate* given)
        : low(is_float<T> ? static_cast<T>(given[0].f) : static_cast<T>(given[0].i)),
          high(is_float<T> ? static_cast<T>(given[1].f) : static_cast<T>(given[1].i)) {}
    T operator()(T x, T gradient) const { return (low < x) & (x < high) ? gradient : T{0}; }
};

// start + index * delta modulo 2^N.
template <class T>
void sequence(const Call& call) noexcept {
    const auto start = static_cast<T>(call.immediates[0].u);
    const auto delta = static_cast<T>(call.immediates[1].u);
    const std::uint64_t first = call.first;
    const std::size_t count = call.count;
    auto* out = static_cast<T*>(call.out);
    DMLGRAPH_LOOP
    for (std::size_t i = 0; i < count; ++i) {
        out[i] = static_cast<T>(start + u64{delta} * (first + i));
    }
}

// start + index * delta, where the index, the product and the sum are each rounded. Indices have 32 bits, because
// tensors have at most 2^32 - 1 elements; those of 31 bits are signed integers, which every processor converts in one
// instruction.
template <class Index>
void sequence_by(const Call& call) {
    const float start = float_of(static_cast<u32>(call.immediates[0].u)),
                delta = float_of(static_cast<u32>(call.immediates[1].u));
    const auto first = static_cast<Index>(call.first);
    const std::size_t count = call.count;
    auto* const out = static_cast<float*>(call.out);
    DMLGRAPH_LOOP
    for (std::size_t i = 0; i < count; ++i) {
        out[i] = start + cast<float>(static_cast<Index>(first + static_cast<Index>(i))) * delta;
    }
}

void sequence_of_float(const Call& call) noexcept {
    call.first + call.count <= u64{greatest<i32>} ? sequence_by<i32>(call) : sequence_by<u32>(call);
}

void sequence_of_half(const Call& call) noexcept {
    const float start = single_of({static_cast<u16>(call.immediates[0].u)});
    const float delta = single_of({static_cast<u16>(call.immediates[1].u)});
    alignas(64) float value[chunk];
    alignas(64) Half rounded[chunk];
    for (std::size_t begin = 0; begin < call.count; begin += chunk) {
        const auto count = static_cast<u32>(call.count - begin < chunk ? call.count - begin : chunk);
        const auto first = static_cast<u32>(call.first + begin);
        for (u32 i = 0; i < count; ++i) {
            value[i] = cast<float>(first + i);
        }
        to_half(value, rounded, count);
        to_single(rounded, value, count);
        for (u32 i = 0; i < count; ++i) {
            value[i] *= delta;
        }
        to_half(value, rounded, count);
        to_single(rounded, value, count);
        for (u32 i = 0; i < count; ++i) {
            value[i] += start;
        }
        to_half(value, static_cast<Half*>(call.out) + begin, count);
    }
}

#define IF(type, ...) \
    {Opcode::IF, data_type<type>, data_type<type>, ternary<If, Word<type>, u8, Word<type>, Word<type>>},
#define CLIP_GRAD(type, opcode) DMLGRAPH_SLOW_BINARY(type, opcode, ClipGrad<type>)
#define SEQUENCE(type, ...) {Opcode::SEQUENCE, data_type<type>, data_type<type>, sequence<Word<type>>},

const Entry entries[] = {
    DMLGRAPH_INTEGERS(DMLGRAPH_UNARY_WORD, IDENTITY, Identity) DMLGRAPH_UNARY_WORD(Half, IDENTITY, Identity)
        DMLGRAPH_UNARY_WORD(float, IDENTITY, Identity) DMLGRAPH_UNARY_WORD(double, IDENTITY, Identity)
            DMLGRAPH_INTEGERS(IF, ) IF(Half) IF(float) IF(double) DMLGRAPH_SLOW_BINARY_FLOATS(RELU_GRAD, ReluGrad)
                DMLGRAPH_SIGNED(DMLGRAPH_SLOW_BINARY, RELU_GRAD, ReluGrad) DMLGRAPH_SLOW_BINARY_FLOATS(
                    CLIP_GRAD, ClipGrad<float>) DMLGRAPH_INTEGERS(CLIP_GRAD, CLIP_GRAD) DMLGRAPH_INTEGERS(SEQUENCE, ){
                    Opcode::SEQUENCE, DataType::float32, DataType::float32, sequence_of_float},
    {Opcode::SEQUENCE, DataType::float16, DataType::float16, sequence_of_half},
};

}  // namespace
}  // namespace select

constexpr Entries select_kernels = select::entries;

}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
