"""ACTIVATION_RELU: max(0, x)."""

from __future__ import annotations

from support.operators import exact
from support.operators.checks import UnaryTests
from support.operators.harness import FLOATS, INF, NAN, SIGNED, case, each_dtype


class TestActivationRelu(UnaryTests):
    operator = "activation_relu"
    levels = "1.0: 4D F32 F16 | 2.0: 4-5D F32 F16 | 3.0: 1-8D F32 F16 | 5.1: 1-8D F32 F16 I32 I16 I8"
    sample = case("two dimensions", [[[-1, 2, -3], [4, -5, 6]]], [[0, 2, 0], [4, 0, 6]])
    cases = (
        *each_dtype(FLOATS + SIGNED[:3], "zero where negative", [[-7, 7, 0]], [0, 7, 0]),
        *each_dtype(FLOATS, "infinities", [[INF, -INF]], [INF, 0]),
        *each_dtype(FLOATS, "zero where NaN", [[NAN]], [0]),  # as HLSL's max; no source states it
        *each_dtype(FLOATS, "subnormal numbers stay", [[2.0**-24, -(2.0**-24)]], [2.0**-24, 0]),
        *(
            case("extremes", [[low, high, -1]], [0, high, 0], dtype)
            for dtype in SIGNED[:3]
            for low, high in [exact.limits(dtype)]
        ),
    )
