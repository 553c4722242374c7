"""ELEMENT_WISE_SIN: sin x, x in radians."""

from __future__ import annotations

from typing import ClassVar

from support.operators import exact
from support.operators.checks import ScaledTests
from support.operators.harness import FLOATS, INF, NAN, case, each_dtype, rounded_cases


class TestSin(ScaledTests):
    operator = "sin"
    ulp: ClassVar = {"directml:software": 4}  # float32 sine of the shader
    levels = "1.0: 4D F32 F16 | 3.0: 1-8D F32 F16"
    sample = case("two dimensions", [[[0, INF, 0], [-INF, 0, NAN]]], [[0, NAN, 0], [NAN, 0, NAN]])
    scaled = case("sin(2x − 1)", [[0.5, 1]], [0.0, exact.rounded(exact.sin(exact.Fraction(1)), "float32")])
    cases = (
        *each_dtype(FLOATS, "zeros keep their sign", [[0.0, -0.0]], [0.0, -0.0]),
        *each_dtype(FLOATS, "NaN at ±∞", [[INF, -INF, NAN]], [NAN] * 3),
        *rounded_cases("sin x to the last bit", exact.sin, [0.5, 1, -1, 1.5707963, 3.1415927, 6.2831855, -2.25, 1e-3]),
        *rounded_cases("many turns", exact.sin, [100, 1000, 12345, -60000]),
        *rounded_cases("rounds once", exact.sin, [0.2093505859375, 300, -300]),
    )
