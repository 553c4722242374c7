"""ELEMENT_WISE_MIN: the lesser of a and b; where one is NaN, the other."""

from __future__ import annotations

from support.operators import exact
from support.operators.checks import BinaryTests
from support.operators.harness import FLOATS, INF, INTEGERS, NAN, SIGNED, case, each_dtype


class TestMin(BinaryTests):
    operator = "min"
    levels = "1.0: 4D F32 F16 | 2.1: 4D ALL8 | 3.0: 1-8D ALL8 | 5.0: 1-8D ALL10"
    sample = case("two dimensions", [[[1, 8, 3], [9, 5, 6]], [[7, 2, 9], [4, 5, 7]]], [[1, 2, 3], [4, 5, 6]])
    cases = (
        *each_dtype(FLOATS + INTEGERS, "the lesser", [[1, 5, 3], [4, 2, 3]], [1, 2, 3]),
        *each_dtype(FLOATS, "NaN gives way", [[NAN, 1, NAN], [1, NAN, NAN]], [1, 1, NAN]),
        *each_dtype(FLOATS, "infinities", [[INF, -INF, INF], [1, 1, NAN]], [1, -INF, INF]),
        *each_dtype(SIGNED, "negative numbers", [[-1, -5], [0, -6]], [-1, -6]),
        *(
            case("extremes", [[low, high], [high, low]], [low, low], dtype)
            for dtype in INTEGERS
            for low, high in [exact.limits(dtype)]
        ),
        case("64-bit neighbours", [[2**64 - 1, 2**53], [2**64 - 2, 2**53 + 1]], [2**64 - 2, 2**53], "uint64"),
    )
