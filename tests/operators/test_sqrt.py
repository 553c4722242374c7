"""ELEMENT_WISE_SQRT: √x."""

from __future__ import annotations

from support.operators import exact
from support.operators.checks import ScaledTests
from support.operators.harness import FLOATS, INF, NAN, case, each_dtype, rounded_cases


class TestSqrt(ScaledTests):
    operator = "sqrt"
    levels = "1.0: 4D F32 F16 | 3.0: 1-8D F32 F16"
    sample = case("two dimensions", [[[1, 4, 9], [16, 25, 36]]], [[1, 2, 3], [4, 5, 6]])
    scaled = case("√(2x − 1)", [[1, 5, 0]], [1, 3, NAN])
    cases = (
        *each_dtype(FLOATS, "squares", [[0.0, 1, 4, 0.25, 2.25]], [0.0, 1, 2, 0.5, 1.5]),
        *each_dtype(FLOATS, "NaN below zero", [[-1, -INF, NAN]], [NAN] * 3),
        *each_dtype(FLOATS, "∞ and −0", [[INF, -0.0]], [INF, -0.0]),
        *rounded_cases("√x to the last bit", exact.sqrt, [2, 3, 5, 0.1, 1234.5, 60000, 1e-5]),
    )
