// Reductions of rows and columns, with the same bits at every instruction-set level.
//
// A reduction keeps a state for each result: it is started, accumulates elements, may be merged with the state of later
// elements, and is finished. Floats are summed and multiplied in double, so that a float32 result is almost only
// rounded once, in any order; SUM_ALIKE errs by up to 2^-23 of its result. How a row is divided into lanes does not
// depend on the level.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "cpu/tensor/data_type.h"

namespace dmlgraph::cpu {

// clang-format off
#define DMLGRAPH_REDUCTIONS(X) \
    X(SUM) X(AVERAGE) X(MULTIPLY)  /* integers wrap */ \
    X(SUM_ALIKE)                   /* of floats of one sign: each four of a row are added in float32 first */ \
    X(SUM_ABS)                     /* the least integer stays */ \
    X(SUM_SQUARE)                  /* each square a float32, which may be infinite */ \
    X(SUM_SQUARE_WIDE)             /* each square a double */ \
    X(MAX) X(MIN)                  /* NaN is ignored; of only NaN -∞ and ∞ */ \
    X(ARGMAX) X(ARGMIN)            /* the first of several; NaN is ignored, unless it comes first */ \
    X(LAST_ARGMAX) X(LAST_ARGMIN)  /* the last of several */
// clang-format on

enum class ReduceFunction : std::uint8_t {
#define DMLGRAPH_REDUCTION(name) name,
    DMLGRAPH_REDUCTIONS(DMLGRAPH_REDUCTION)
#undef DMLGRAPH_REDUCTION
};

// States are adjacent, aligned to 8 bytes. `first`: how many elements of each row the states have accumulated before.
struct Reduction {
    std::size_t state_bytes;
    void (*start)(void* states, std::size_t count) noexcept;
    // `count` packed rows of `length` elements.
    void (*rows)(void* states, const void* in, std::size_t count, std::size_t length, std::uint64_t first) noexcept;
    // `length` lines, `stride` bytes apart, with one element of each of `count` columns.
    void (*columns)(void* states, const void* in, std::ptrdiff_t stride, std::size_t count, std::size_t length,
                    std::uint64_t first) noexcept;
    // The states of later elements.
    void (*merge)(void* states, const void* later, std::size_t count) noexcept;
    // `length`: of the whole rows.
    void (*finish)(const void* states, void* out, std::size_t count, std::uint64_t length) noexcept;
    // The same of the elements' squares, each rounded as MULTIPLY does. Null for most.
    const Reduction* of_squares = nullptr;
};

struct ReductionEntry {
    ReduceFunction function;
    DataType operand;
    DataType result;
    Reduction reduction;
};
struct ReductionKernels {
    std::span<const ReductionEntry> entries;
};

// Of the chosen level; returns null if it does not have one.
const Reduction* find_reduction(std::string_view name, DataType operand, DataType result) noexcept;

}  // namespace dmlgraph::cpu
