"""ELEMENT_WISE_ERF: the error function, 2/√π ∫ e^(−t²) dt from 0 to x.

DirectML approximates it: the error in float32 is up to 5e-7, which is large relative to results near zero.
"""

from __future__ import annotations

from typing import ClassVar

from support.operators import exact
from support.operators.checks import ScaledTests
from support.operators.families import ApproximatedTests
from support.operators.harness import FLOATS, INF, NAN, case, each_dtype, rounded_cases


class TestErf(ApproximatedTests, ScaledTests):
    operator = "erf"
    levels = "2.0: 4D F32 F16 | 3.0: 1-8D F32 F16"
    error = 5e-7
    ulp: ClassVar = {"directml:software": 2}
    sample = case("two dimensions", [[[0, INF, 0], [-INF, 0, NAN]]], [[0, 1, 0], [-1, 0, NAN]])
    scaled = case("erf(2x − 1)", [[0.5, 1]], [0.0, exact.rounded(exact.erf(exact.Fraction(1)), "float32")])
    cases = (
        *each_dtype(FLOATS, "zeros keep their sign", [[0.0, -0.0]], [0.0, -0.0]),
        *each_dtype(FLOATS, "±1 at ±∞", [[INF, -INF, NAN, 10, -10]], [1, -1, NAN, 1, -1]),
        *rounded_cases("erf x to the last bit", exact.erf, [0.5, 1, -1, 2, -1.5, 0.1, 3, 1e-2]),
    )
