// The functions of a formula's operations, by their names in formula.h.
#pragma once

#include "cpu/kernels/formula_vector.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace formulas::functions {
namespace {

#define DMLGRAPH_OF_PAIR(name, value) \
    struct name { static DMLGRAPH_INLINE Vector of([[maybe_unused]] Vector x, Vector m) { return value; } };
DMLGRAPH_OF_PAIR(load, m)
DMLGRAPH_OF_PAIR(add, sum(x, m))
DMLGRAPH_OF_PAIR(subtract, difference(x, m))
DMLGRAPH_OF_PAIR(multiply, times(x, m))
DMLGRAPH_OF_PAIR(divide, quotient(x, m))
DMLGRAPH_OF_PAIR(subtract_from, difference(m, x))
DMLGRAPH_OF_PAIR(divide_from, quotient(m, x))
// Of NaN and a number the number; of two equal numbers the second.
DMLGRAPH_OF_PAIR(max, greater_number(x, m))
DMLGRAPH_OF_PAIR(min, lesser_number(x, m))
DMLGRAPH_OF_PAIR(max_of, greater_number(m, x))
DMLGRAPH_OF_PAIR(min_of, lesser_number(m, x))
DMLGRAPH_OF_PAIR(above, DMLGRAPH_LEVEL::greater(x, m))
DMLGRAPH_OF_PAIR(below, lesser(x, m))
DMLGRAPH_OF_PAIR(raise, DMLGRAPH_LEVEL::greater(m, x))
DMLGRAPH_OF_PAIR(less, is_less(x, m))
DMLGRAPH_OF_PAIR(less_or_equal, is_less_or_equal(x, m))
DMLGRAPH_OF_PAIR(equal, is_equal(x, m))
DMLGRAPH_OF_PAIR(greater, is_less(m, x))
DMLGRAPH_OF_PAIR(greater_or_equal, is_less_or_equal(m, x))
DMLGRAPH_OF_PAIR(both, bits_of_both(x, m))
DMLGRAPH_OF_PAIR(either, bits_of_either(x, m))
DMLGRAPH_OF_PAIR(differ, bits_that_differ(x, m))
#undef DMLGRAPH_OF_PAIR

#define DMLGRAPH_OF_MEMORY(name, Type, value) \
    struct name { using type = Type; static DMLGRAPH_INLINE Vector of(const Type* from) { return value; } };
DMLGRAPH_OF_MEMORY(load_bytes, u8, DMLGRAPH_LEVEL::load_bytes(from))
DMLGRAPH_OF_MEMORY(load_mask, u8, is_less(repeated(0.0f), DMLGRAPH_LEVEL::load_bytes(from)))
DMLGRAPH_OF_MEMORY(load_halves, Half, DMLGRAPH_LEVEL::load_halves(from))
#undef DMLGRAPH_OF_MEMORY

#define DMLGRAPH_OF_VECTOR(name, value) \
    struct name { static DMLGRAPH_INLINE Vector of(Vector x) { return value; } };
DMLGRAPH_OF_VECTOR(absolute, bits_of_both(x, repeated(float_of(0x7fffffffu))))
DMLGRAPH_OF_VECTOR(negate, bits_that_differ(x, repeated(-0.0f)))
DMLGRAPH_OF_VECTOR(square, times(x, x))
DMLGRAPH_OF_VECTOR(root, square_root(x))
DMLGRAPH_OF_VECTOR(reciprocal, quotient(repeated(1.0f), x))
DMLGRAPH_OF_VECTOR(invert, bits_that_differ(x, repeated(float_of(~0u))))
DMLGRAPH_OF_VECTOR(one, bits_of_both(x, repeated(1.0f)))
DMLGRAPH_OF_VECTOR(round, rounded(x))
#undef DMLGRAPH_OF_VECTOR

}  // namespace
}  // namespace formulas::functions
}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
