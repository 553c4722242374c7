// What tiles of products and of convolutions do with their sums while these are in registers.
#pragma once

#include <cstdint>

#include "cpu/compiler.h"

namespace dmlgraph::cpu {

// A function of a result with up to two attributes, which are not NaN; as in the instructions of these names. The slope of
// LEAKY_RELU is in (0, 1].
struct SumFunction {
    enum class Kind { none, threshold, clip, leaky_relu, hard_sigmoid, hard_swish };

    Kind kind = Kind::none;
    float first = 0;
    float second = 0;
};

// What follows a sum: the number of its row is added, then an element of a tensor, then a function is applied.
struct SumEnding {
    const float* numbers = nullptr;  // one for each row of a tile; null: nothing follows
    const float* lines = nullptr;    // an element for each sum; null: none are added
    std::int64_t step = 0;           // floats from row to row of these
    SumFunction function{};

    // That of the sums from a column on.
    DMLGRAPH_INLINE SumEnding from(std::int64_t column) const {
        return {numbers, lines == nullptr ? nullptr : lines + column, step, function};
    }
};

}  // namespace dmlgraph::cpu
