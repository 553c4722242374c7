"""ELEMENT_WISE_SUBTRACT: a − b, element by element."""

from __future__ import annotations

from support.operators import exact
from support.operators.checks import BinaryTests
from support.operators.harness import FLOATS, INF, INTEGERS, NAN, SIGNED, UNSIGNED, case, each_dtype


class TestSubtract(BinaryTests):
    operator = "subtract"
    levels = (
        "1.0: 4D F32 F16 | 2.1: 4D F32 F16 I32 U32 | 3.0: 1-8D F32 F16 I32 U32"
        " | 4.1: 1-8D F32 F16 I64 I32 U64 U32 | 5.1: 1-8D ALL10"
    )
    sample = case("two dimensions", [[[10, 20, 30], [40, 50, 60]], [[1, 2, 3], [4, 5, 7]]], [[9, 18, 27], [36, 45, 53]])
    cases = (
        *each_dtype(FLOATS + INTEGERS, "differences", [[7, 5, 3], [4, 5, 1]], [3, 0, 2]),
        *each_dtype(FLOATS, "infinities and NaN", [[INF, INF, 1, NAN], [INF, -INF, INF, 1]], [NAN, INF, -INF, NAN]),
        *each_dtype(FLOATS, "zeros keep their sign", [[-0.0, 0.0, 5], [0.0, 0.0, 5]], [-0.0, 0.0, 0.0]),
        case("3 − 5 is 254", [[3], [5]], [254], "uint8"),
        *(case("0 − 1 is the greatest", [[0], [1]], [exact.limits(dtype)[1]], dtype) for dtype in UNSIGNED),
        *(
            case("least − 1 is the greatest", [[exact.limits(dtype)[0]], [1]], [exact.limits(dtype)[1]], dtype)
            for dtype in SIGNED
        ),
        case("2^24 − 0.5 rounds to even", [[2.0**24], [0.5]], [2.0**24]),
    )
