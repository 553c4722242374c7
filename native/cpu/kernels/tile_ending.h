// The ending of a tile of sums, in registers.
#pragma once

#include "cpu/compiler.h"
#include "cpu/kernels/math.h"
#include "cpu/kernels/part_vector.h"
#include "cpu/kernels/sum_ending.h"
#include "cpu/kernels/vector.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace {

// alpha · x + beta, rounded once, between 0 and 1; NaN becomes 0.
DMLGRAPH_INLINE Vector hard_sigmoid(Vector x, const SumFunction& function) {
#if defined(DMLGRAPH_FMA)
    const Vector line = product_sum(repeated(function.first), x, repeated(function.second));
#else
    float numbers[lanes];
    store(numbers, x);
    for (float& each : numbers) {
        each = fused(function.first, each, function.second);
    }
    const Vector line = load(numbers);
#endif
    return lesser(greater(line, repeated(0.0f)), repeated(1.0f));
}

// −0 stays if it is equal to a lower bound of two, as in CLIP.
DMLGRAPH_INLINE Vector applied(Vector x, const SumFunction& function) {
    using Kind = SumFunction::Kind;
    switch (function.kind) {
        case Kind::none: return x;
        case Kind::threshold: return greater(x, repeated(function.first));
        case Kind::clip: return greater(repeated(function.first), lesser(x, repeated(function.second)));
        case Kind::leaky_relu: return greater(x, times(repeated(function.first), x));
        case Kind::hard_sigmoid: return hard_sigmoid(x, function);
        default: return times(x, hard_sigmoid(x, function));
    }
}

// Rows of a tile, of whole vectors, from a column on.
template <int rows, int vectors>
DMLGRAPH_INLINE void end(Vector (&sums)[rows][vectors], const SumEnding& ending, std::int64_t column) {
    DMLGRAPH_UNROLL
    for (int i = 0; i < rows; ++i) {
        const Vector number = repeated(ending.numbers[i]);
        DMLGRAPH_UNROLL
        for (int j = 0; j < vectors; ++j) {
            sums[i][j] = sum(sums[i][j], number);
        }
    }
    if (ending.lines != nullptr) {
        DMLGRAPH_UNROLL
        for (int i = 0; i < rows; ++i) {
            DMLGRAPH_UNROLL
            for (int j = 0; j < vectors; ++j) {
                sums[i][j] = sum(sums[i][j], load(ending.lines + column + i * ending.step + j * lanes));
            }
        }
    }
    if (ending.function.kind != SumFunction::Kind::none) {
        DMLGRAPH_UNROLL
        for (int i = 0; i < rows; ++i) {
            DMLGRAPH_UNROLL
            for (int j = 0; j < vectors; ++j) {
                sums[i][j] = applied(sums[i][j], ending.function);
            }
        }
    }
}

// Stores the sums of a tile, which are added to what is there if it `adds`. Numbers: Singles or Integers.
template <class Numbers, int rows, int vectors, bool ends = Numbers::are_floats, class Call>
DMLGRAPH_INLINE void store_tile(typename Numbers::V (&sums)[rows][vectors], const Call& call) {
    float* const to = call.sums;
    const std::int64_t step = call.step;
    if (call.adds) {
        DMLGRAPH_UNROLL
        for (int i = 0; i < rows; ++i) {
            DMLGRAPH_UNROLL
            for (int j = 0; j < vectors; ++j) {
                sums[i][j] = sum(Numbers::load(to + i * step + j * lanes), sums[i][j]);
            }
        }
    }
    if constexpr (ends) {
        if (call.ending != nullptr) {
            end<rows, vectors>(sums, *call.ending, call.column);
        }
    }
    if constexpr (!Numbers::are_floats) {
        if (call.ending != nullptr) {
            DMLGRAPH_UNROLL
            for (int i = 0; i < rows; ++i) {
                const auto number = Numbers::repeated(call.ending->numbers[i]);
                DMLGRAPH_UNROLL
                for (int j = 0; j < vectors; ++j) {
                    sums[i][j] = sum(sums[i][j], number);
                }
            }
        }
    }
    DMLGRAPH_UNROLL
    for (int i = 0; i < rows; ++i) {
        DMLGRAPH_UNROLL
        for (int j = 0; j < vectors; ++j) {
            store(to + i * step + j * lanes, sums[i][j]);
        }
    }
}

}  // namespace
}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
