"""ELEMENT_WISE_MAX: the greater of a and b; where one is NaN, the other."""

from __future__ import annotations

from support.operators import exact
from support.operators.checks import BinaryTests
from support.operators.harness import FLOATS, INF, INTEGERS, NAN, SIGNED, case, each_dtype


class TestMax(BinaryTests):
    operator = "max"
    levels = "1.0: 4D F32 F16 | 2.1: 4D ALL8 | 3.0: 1-8D ALL8 | 5.0: 1-8D ALL10"
    sample = case("two dimensions", [[[1, 8, 3], [9, 5, 6]], [[7, 2, 9], [4, 5, 7]]], [[7, 8, 9], [9, 5, 7]])
    cases = (
        *each_dtype(FLOATS + INTEGERS, "the greater", [[1, 5, 3], [4, 2, 3]], [4, 5, 3]),
        *each_dtype(FLOATS, "NaN gives way", [[NAN, 1, NAN], [1, NAN, NAN]], [1, 1, NAN]),
        *each_dtype(FLOATS, "infinities", [[INF, -INF, -INF], [1, 1, NAN]], [INF, 1, -INF]),
        *each_dtype(SIGNED, "negative numbers", [[-1, -5], [0, -6]], [0, -5]),
        *(
            case("extremes", [[low, high], [high, low]], [high, high], dtype)
            for dtype in INTEGERS
            for low, high in [exact.limits(dtype)]
        ),
        case("64-bit neighbours", [[2**63 - 2, 2**53], [2**63 - 1, 2**53 + 1]], [2**63 - 1, 2**53 + 1], "int64"),
    )
