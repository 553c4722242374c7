"""ELEMENT_WISE_ABS: |x|."""

from __future__ import annotations

from support.operators import exact
from support.operators.checks import ScaledTests
from support.operators.harness import FLOATS, INF, NAN, SIGNED, case, each_dtype


class TestAbs(ScaledTests):
    operator = "abs"
    levels = (
        "1.0: 4D F32 F16 | 2.1: 4D F32 F16 I32 I16 I8 | 3.0: 1-8D F32 F16 I32 I16 I8 | 4.1: 1-8D F32 F16 I64 I32 I16 I8"
    )
    sample = case("two dimensions", [[[-1, 2, -3], [4, -5, 6]]], [[1, 2, 3], [4, 5, 6]])
    scaled = case("|2x − 1|", [[-1, 0.25, 2]], [3, 0.5, 3])
    cases = (
        *each_dtype(FLOATS + SIGNED, "without the sign", [[-7, 7, 0]], [7, 7, 0]),
        *each_dtype(FLOATS, "special values", [[-INF, NAN, -0.0]], [INF, NAN, 0.0]),
        *(
            case("the least integer stays, the one above does not", [[low, low + 1]], [low, -(low + 1)], dtype)
            for dtype in SIGNED[1:]
            for low in exact.limits(dtype)[:1]
        ),
        case("the least int8 is stored as the greatest", [[-128, -127]], [127, 127], "int8"),
    )
