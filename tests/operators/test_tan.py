"""ELEMENT_WISE_TAN: tan x, x in radians."""

from __future__ import annotations

from typing import ClassVar

from support.operators import exact
from support.operators.checks import ScaledTests
from support.operators.harness import FLOATS, INF, NAN, case, each_dtype, rounded_cases


class TestTan(ScaledTests):
    operator = "tan"
    levels = "1.0: 4D F32 F16 | 3.0: 1-8D F32 F16"
    ulp: ClassVar = {"directml:software": 2}
    sample = case("two dimensions", [[[0, INF, 0], [-INF, 0, NAN]]], [[0, NAN, 0], [NAN, 0, NAN]])
    scaled = case("tan(2x − 1)", [[0.5, 1]], [0.0, exact.rounded(exact.tan(exact.Fraction(1)), "float32")])
    cases = (
        *each_dtype(FLOATS, "zeros keep their sign", [[0.0, -0.0]], [0.0, -0.0]),
        *each_dtype(FLOATS, "NaN at ±∞", [[INF, -INF, NAN]], [NAN] * 3),
        *rounded_cases("tan x to the last bit", exact.tan, [0.5, 1, -1, 0.7853982, -2.25, 3, 1e-3]),
        *rounded_cases("beside its pole", exact.tan, [1.5, 1.5703125, 1.625]),
        *rounded_cases("many turns", exact.tan, [100, 1000, -12345]),
    )
