// Reductions of rows and columns, at every instruction-set level: what many elements come to, bit by bit.
//
// A reduction keeps a state for each result: it is started, takes elements in, may be merged with the state of later
// elements, and is finished. Floats are summed and multiplied in double, so that a float32 result is all but rounded
// once, whatever the order; how a row is cut into lanes does not depend on the level.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "cpu/tensor/data_type.h"

namespace dmlgraph::cpu {

// clang-format off
#define DMLGRAPH_REDUCTIONS(X) \
    X(SUM) X(AVERAGE) X(MULTIPLY)  /* integers wrap */ \
    X(SUM_ABS)                     /* the least integer stays */ \
    X(SUM_SQUARE)                  /* each square a float32, which may be infinite */ \
    X(SUM_SQUARE_WIDE)             /* each square a double */ \
    X(MAX) X(MIN)                  /* NaN is passed over; of nothing else -∞ and ∞ */ \
    X(ARGMAX) X(ARGMIN)            /* the first of several; NaN is passed over, unless it comes first */ \
    X(LAST_ARGMAX) X(LAST_ARGMIN)  /* the last of several */
// clang-format on

enum class ReduceFunction : std::uint8_t {
#define DMLGRAPH_REDUCTION(name) name,
    DMLGRAPH_REDUCTIONS(DMLGRAPH_REDUCTION)
#undef DMLGRAPH_REDUCTION
};

// States lie side by side, aligned to 8 bytes. `first`: how many elements of each row the states have taken before.
struct Reduction {
    std::size_t state_bytes;
    void (*start)(void* states, std::size_t count) noexcept;
    // `count` packed rows of `length` elements.
    void (*rows)(void* states, const void* in, std::size_t count, std::size_t length, std::uint64_t first) noexcept;
    // `length` lines, `stride` bytes apart, of an element of each of `count` columns.
    void (*columns)(void* states, const void* in, std::ptrdiff_t stride, std::size_t count, std::size_t length,
                    std::uint64_t first) noexcept;
    // The states of what comes later.
    void (*merge)(void* states, const void* later, std::size_t count) noexcept;
    // `length`: of the whole rows.
    void (*finish)(const void* states, void* out, std::size_t count, std::uint64_t length) noexcept;
};

// Null where there is none; of the level that `find_kernel` takes.
const Reduction* find_reduction(std::string_view name, DataType operand, DataType result) noexcept;

}  // namespace dmlgraph::cpu
