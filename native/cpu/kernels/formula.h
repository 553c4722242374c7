// Formulas: several cheap instructions as one, computed a few vectors at a time in the processor's registers.
//
// A separate instruction loads its operands and stores its result, which takes longer than its arithmetic. An operation
// of a formula works on what is in registers, x, and at most one more operand in memory. What is needed again later is
// kept in memory that stays in the nearest cache.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/kernels/kernel.h"

namespace dmlgraph::cpu {

// X(name): x becomes a function of x and m, which is in memory, a number, or in other registers, near or next. Masks
// have all bits of a lane or none.
#define DMLGRAPH_FORMULA_PAIRS(X)                                     \
    X(load) /* m */                                                   \
    X(add) X(subtract) X(multiply) X(divide)                          \
    X(subtract_from) X(divide_from)       /* m - x, m / x */          \
    X(max) X(min) X(max_of) X(min_of)     /* MAX of x and m; of m and x */ \
    X(above) X(below)                     /* x > m ? x : m, x < m ? x : m */ \
    X(raise)                              /* m > x ? m : x */         \
    X(less) X(less_or_equal) X(equal)     /* masks */                 \
    X(greater) X(greater_or_equal)        /* m < x, m <= x */         \
    X(both) X(either) X(differ)           /* of masks */

// X(name): x becomes what is in memory, as float32 or a mask.
#define DMLGRAPH_FORMULA_LOADS(X)                        \
    X(load_bytes)  /* of uint8 */                        \
    X(load_mask)   /* of uint8: what is not zero */      \
    X(load_halves) /* of float16 */

// X(name): x becomes a function of x.
#define DMLGRAPH_FORMULA_FUNCTIONS(X)                             \
    X(absolute) X(negate) X(square) X(root) X(reciprocal)         \
    X(invert) /* a mask */                                        \
    X(one)    /* 1 where a mask is set, else 0 */                 \
    X(round)  /* to float16 */

#define DMLGRAPH_FORMULA_OTHERS(X)                                                                       \
    X(fetch_near) X(fetch_near_number) X(fetch_next) X(fetch_next_number) /* into other registers */     \
    X(select) X(select_number) X(select_or_number) X(select_numbers)                                     \
    /* x is a mask: where it is set the first operand, else the second */                                \
    DMLGRAPH_FORMULA_LOADS(X)                                                                            \
    X(keep)                   /* in memory */                                                            \
    X(keep_near) X(keep_next) /* in other registers */                                                   \
    X(divide_by_reciprocal)   /* x / a number, of which the second one is the reciprocal */               \
    X(count)                  /* x becomes elements of a sequence, whose start and delta are constants */ \
    DMLGRAPH_FORMULA_FUNCTIONS(X)                                                                        \
    X(finish) X(finish_halves) /* x is the result, as float32 or float16: the last operation */

enum class FormulaCode : std::uint8_t {
#define DMLGRAPH_FORMULA_PAIR(name) name, name##_number, name##_near, name##_next,
#define DMLGRAPH_FORMULA_CODE(name) name,
    DMLGRAPH_FORMULA_PAIRS(DMLGRAPH_FORMULA_PAIR) DMLGRAPH_FORMULA_OTHERS(DMLGRAPH_FORMULA_CODE)
#undef DMLGRAPH_FORMULA_PAIR
#undef DMLGRAPH_FORMULA_CODE
};

// Whether an operation is one of DMLGRAPH_FORMULA_PAIRS.
constexpr bool takes_pair(FormulaCode code) { return code < FormulaCode::fetch_near; }

// What an operation takes: one of the call's operands, what is in other registers or was kept in memory, or a constant.
enum class FormulaSource : std::uint8_t { operand = 0, near = 32, kept = 64, constant = 128 };

// In one immediate each.
struct FormulaOperation {
    FormulaCode code{};
    std::uint8_t first = 0;   // a FormulaSource plus an index
    std::uint8_t second = 0;  // of select

    std::uint64_t word() const {
        return static_cast<std::uint64_t>(code) | std::uint64_t{first} << 8 | std::uint64_t{second} << 16;
    }
    static FormulaOperation of(std::uint64_t word) {
        return {static_cast<FormulaCode>(word & 0xff), static_cast<std::uint8_t>(word >> 8),
                static_cast<std::uint8_t>(word >> 16)};
    }
};

// A batch of each is on the stack.
inline constexpr std::size_t most_formula_operands = 16;
inline constexpr std::size_t most_formula_kept = 12;
inline constexpr std::size_t most_formula_operations = 80;

// Other registers, near and next, of processors with many.
inline constexpr int most_formula_registers = 2;

// A kernel of any number of operands. Its immediates are `u`: the numbers of operands and of operations; for each
// operand the bytes of an element; the operations; then `f`: the constants.
struct FormulaKernel {
    Kernel kernel;
    int registers;  // besides that of x
};

}  // namespace dmlgraph::cpu
