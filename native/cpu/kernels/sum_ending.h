// What tiles of products and of convolutions do with their sums while these are in registers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "cpu/kernels/numbers.h"

namespace dmlgraph::cpu {

// Of the columns of a tile: all, of whole vectors.
inline constexpr std::int64_t every_column = std::numeric_limits<std::int64_t>::max();

// A function of a result with up to two bounds, which are not NaN; as in the instructions of these names.
struct SumFunction {
    enum class Kind { none, threshold, clip };

    Kind kind = Kind::none;
    float first = 0;
    float second = 0;
};

// Results of float16 and what follows the rounding: an element of a tensor is added and the sum rounded, then a
// function is applied, THRESHOLD or CLIP. Steps are elements, which have 16 bits.
struct HalfEnding {
    std::uint16_t* out = nullptr;          // where the results go; null: they are float32, and are where the sums were
    std::int64_t step = 0;                 // from row to row
    std::int64_t count = 0;                // of a row: vectors may reach beyond it
    const std::uint16_t* lines = nullptr;  // an element for each sum; null: none are added
    std::int64_t lines_step = 0;
    bool adds_before = false;  // whether the elements are added before the first function, without rounding
    SumFunction function{};
};

// Results of 8-bit integers: sums times the factor of their row, rounded, plus the zero point, within the range of
// their type.
struct ByteEnding {
    std::byte* out = nullptr;  // where the results go; null: they are the sums
    std::int64_t step = 0;     // from row to row
    std::int64_t count = 0;    // of a row: vectors may reach beyond it
    bool is_signed = false;
    std::uint8_t zero_point = 0;     // its bits
    const float* factors = nullptr;  // one for each row of a tile
};

// What follows a sum: the number of its row is added, then an element of a tensor, then a function is applied. If sums
// are integers, that number is one too, and they may become bytes, but nothing else follows. Calls of kernels have its
// address: a copy of what was just written waits for all stores before, those of the last results too.
struct SumEnding {
    NumbersAt numbers{};           // one for each row of a tile
    const float* lines = nullptr;  // an element for each sum; null: none are added
    std::int64_t step = 0;         // floats from row to row of these
    SumFunction function{};
    HalfEnding half{};
    ByteEnding bytes{};

    bool rounds() const { return half.out != nullptr; }
};

}  // namespace dmlgraph::cpu
