"""ELEMENT_WISE_LOG: ln x."""

from __future__ import annotations

from typing import ClassVar

from support.operators import exact
from support.operators.checks import ScaledTests
from support.operators.harness import FLOATS, INF, NAN, case, each_dtype, rounded_cases


class TestLog(ScaledTests):
    operator = "log"
    ulp: ClassVar = {"directml:software": 4}  # log2 x · ln 2
    levels = "1.0: 4D F32 F16 | 3.0: 1-8D F32 F16"
    sample = case("two dimensions", [[[1, 0, INF], [0, 1, 1]]], [[0, -INF, INF], [-INF, 0, 0]])
    scaled = case("ln(2x − 1)", [[1, 0.5, 0]], [0, -INF, NAN])
    cases = (
        *each_dtype(FLOATS, "−∞ at zero", [[0.0, -0.0]], [-INF, -INF]),
        *each_dtype(FLOATS, "NaN below zero", [[-1, -INF, NAN, -0.5]], [NAN] * 4),
        *each_dtype(FLOATS, "0 at one, ∞ at ∞", [[1, INF]], [0.0, INF]),
        *rounded_cases("ln x to the last bit", exact.log, [2, 2.718281828, 10, 0.5, 1.001, 1000, 6.1e-5]),
        *rounded_cases("rounds once", exact.log, [0.005340576171875]),
        case("least subnormal", [[2.0**-149]], [exact.rounded(exact.log(exact.Fraction(2) ** -149), "float32")]),
    )
