"""ELEMENT_WISE_COS: cos x, x in radians."""

from __future__ import annotations

from typing import ClassVar

from support.operators import exact
from support.operators.checks import ScaledTests
from support.operators.harness import FLOATS, INF, NAN, case, each_dtype, rounded_cases


class TestCos(ScaledTests):
    operator = "cos"
    ulp: ClassVar = {"directml:software": 4}  # float32 cosine of the shader
    levels = "1.0: 4D F32 F16 | 3.0: 1-8D F32 F16"
    sample = case("two dimensions", [[[0, INF, 0], [-INF, 0, NAN]]], [[1, NAN, 1], [NAN, 1, NAN]])
    scaled = case("cos(2x − 1)", [[0.5, 1]], [1.0, exact.rounded(exact.cos(exact.Fraction(1)), "float32")])
    cases = (
        *each_dtype(FLOATS, "1 at both zeros", [[0.0, -0.0]], [1.0, 1.0]),
        *each_dtype(FLOATS, "NaN at ±∞", [[INF, -INF, NAN]], [NAN] * 3),
        *rounded_cases("cos x to the last bit", exact.cos, [0.5, 1, -1, 1.5707963, 3.1415927, 6.2831855, -2.25, 1e-3]),
        *rounded_cases("many turns", exact.cos, [100, 1000, 12345, -60000]),
        *rounded_cases("rounds once", exact.cos, [0.0584716796875]),
    )
