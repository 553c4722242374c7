"""ELEMENT_WISE_NEGATE: −x."""

from __future__ import annotations

from support.operators import exact
from support.operators.checks import UnaryTests
from support.operators.harness import FLOATS, INF, NAN, SIGNED, case, each_dtype


class TestNegate(UnaryTests):
    operator = "negate"
    levels = "5.0: 1-8D F32 F16 I64 I32 I16 I8"
    sample = case("two dimensions", [[[-1, 2, -3], [4, -5, 6]]], [[1, -2, 3], [-4, 5, -6]])
    cases = (
        *each_dtype(FLOATS, "the other sign", [[-7, 7, 0.5]], [7, -7, -0.5]),
        *each_dtype(SIGNED, "the other sign", [[-7, 7, 0]], [7, -7, 0]),
        *each_dtype(FLOATS, "special values", [[-INF, INF, NAN, 0.0, -0.0]], [INF, -INF, NAN, -0.0, 0.0]),
        *(
            case("the least integer stays, the greatest does not", [[low, high]], [low, -high], dtype)
            for dtype in SIGNED[1:]
            for low, high in [exact.limits(dtype)]
        ),
        case("the least int8 is stored as the greatest", [[-128, 127]], [127, -127], "int8"),
    )
