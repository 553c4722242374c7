// Lines of float16 as float32 and back, and float16 kernels made from float32 ones.
#pragma once

#include "cpu/kernels/half_vector.h"
#include "cpu/kernels/loops.h"
#include "cpu/kernels/part_vector.h"
#include "cpu/kernels/types.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace {

// The results must lie elsewhere.
[[maybe_unused]] DMLGRAPH_ONCE void to_single(const Half* x, float* out, std::size_t count) {
    std::size_t i = 0;
#if defined(__AVX2__) || defined(__aarch64__) || defined(_M_ARM64)
    for (; i + lanes <= count; i += lanes) {
        store(out + i, load_halves(x + i));
    }
    if (i < count) {
        const int some = static_cast<int>(count - i);
        store_part(out + i, load_halves(x + i, some), part(0, some));
    }
#else
    DMLGRAPH_LOOP
    for (; i < count; ++i) {
        out[i] = single_of(x[i]);
    }
#endif
}

// The results must lie elsewhere.
[[maybe_unused]] DMLGRAPH_ONCE void to_half(const float* x, Half* out, std::size_t count) {
    std::size_t i = 0;
#if defined(__AVX2__) || defined(__aarch64__) || defined(_M_ARM64)
    for (; i + lanes <= count; i += lanes) {
        store_halves(out + i, load(x + i));
    }
    if (i < count) {
        const int some = static_cast<int>(count - i);
        store_halves(out + i, load_part(x + i, part(0, some)), some);
    }
#else
    DMLGRAPH_LOOP
    for (; i < count; ++i) {
        out[i] = half_of(x[i]);
    }
#endif
}

// A kernel of float32 operands as one of float16 operands. The result is float16, or the kernel's other result type.
template <Kernel kernel, std::size_t operands, class Result>
void in_half(const Call& call) noexcept {
    alignas(cache_line) float in[operands][chunk];
    alignas(cache_line) float result[chunk];
    Operand singles[operands];
    for (std::size_t k = 0; k < operands; ++k) {
        singles[k] = {in[k], call.in[k].scalar};
        if (call.in[k].scalar) {
            to_single(static_cast<const Half*>(call.in[k].data), in[k], 1);
        }
    }
    for (std::size_t start = 0; start < call.count; start += chunk) {
        const std::size_t count = call.count - start < chunk ? call.count - start : chunk;
        for (std::size_t k = 0; k < operands; ++k) {
            if (!call.in[k].scalar) {
                to_single(static_cast<const Half*>(call.in[k].data) + start, in[k], count);
            }
        }
        auto* out = static_cast<Result*>(call.out) + start;
        if constexpr (is_same<Result, Half>) {
            kernel({result, singles, count, call.immediates, 0});
            to_half(result, out, count);
        } else {
            kernel({out, singles, count, call.immediates, 0});
        }
    }
}

}  // namespace
}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
