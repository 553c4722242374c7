// A loop over vectors, for functions of one float32 that compilers do not vectorise themselves, such as those that look
// numbers up in registers.
#pragma once

#include "cpu/kernels/half.h"
#include "cpu/kernels/loops.h"
#include "cpu/kernels/part_vector.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace {

template <class Function>
void unary_of_vectors(const Call& call) noexcept {
    const auto function = make<Function>(call.immediates);
    const auto* x = static_cast<const float*>(call.in[0].data);
    auto* out = static_cast<float*>(call.out);
    const std::size_t count = call.count;
    if (call.in[0].scalar) {
        float numbers[lanes];
        store(numbers, function(repeated(*x)));
        return spread(numbers[0], out, count);
    }
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes) {
        store(out + i, function(load(x + i)));
    }
    if (i < count) {
        const Part rest = part(0, static_cast<int>(count - i));
        store_part(out + i, function(load_part(x + i, rest)), rest);
    }
}

}  // namespace
}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL

// Of tables.h: lines for kernels whose function takes a vector.
#define DMLGRAPH_UNARY_OF_VECTORS(opcode, function) \
    {Opcode::opcode, DataType::float32, DataType::float32, unary_of_vectors<function>},
#define DMLGRAPH_UNARY_OF_VECTORS_FLOATS(opcode, function) \
    DMLGRAPH_UNARY_OF_VECTORS(opcode, function)            \
    {Opcode::opcode, DataType::float16, DataType::float16, in_half<unary_of_vectors<function>, 1, Half>},
