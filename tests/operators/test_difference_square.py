"""ELEMENT_WISE_DIFFERENCE_SQUARE: (a − b)²; integers wrap."""

from __future__ import annotations

from fractions import Fraction

from support.operators import exact
from support.operators.checks import BinaryTests
from support.operators.harness import FLOATS, INF, NAN, case, each_dtype


class TestDifferenceSquare(BinaryTests):
    operator = "difference_square"
    levels = "3.1: 1-8D F32 F16 I32 U32"
    sample = case("two dimensions", [[[1, 2, 3], [4, 5, 6]], [[2, 4, 3], [0, 8, 1]]], [[1, 4, 0], [16, 9, 25]])
    cases = (
        *each_dtype((*FLOATS, "int32", "uint32"), "squares", [[7, 5, 10], [4, 5, 0]], [9, 0, 100]),
        *each_dtype((*FLOATS, "int32", "uint32"), "the greater may be either", [[4, 0], [7, 10]], [9, 100]),
        case("wraps modulo 2^32", [[2**31 - 1, 65537], [-1, 0]], [0, exact.wrap(65537**2, "int32")], "int32"),
        case("wraps modulo 2^32", [[0, 2**32 - 1], [65537, 0]], [65537**2 % 2**32, 1], "uint32"),
        *each_dtype(FLOATS, "infinities and NaN", [[INF, INF, 1, NAN], [1, INF, -INF, 1]], [INF, NAN, INF, NAN]),
        *each_dtype(FLOATS, "never −0", [[-0.0, 0.0], [0.0, 0.0]], [0.0, 0.0]),
        case("beyond the range", [[300.0, 256.0], [0.0, 0.0]], [INF, INF], "float16"),
        # DirectML does this for tensors of an even number of elements; others are computed in float16.
        case(
            "float16 differences are wider",
            [[3.0, 3.0], [2.0**-10, 3 * 2.0**-10]],
            exact.round_all([(3 - Fraction(1, 1024)) ** 2, (3 - Fraction(3, 1024)) ** 2], "float16"),
            "float16",
        ),
    )
