"""ELEMENT_WISE_EXP: e^x."""

from __future__ import annotations

from typing import ClassVar

from support.operators import exact
from support.operators.checks import ScaledTests
from support.operators.harness import FLOATS, INF, NAN, case, each_dtype, rounded_cases


class TestExp(ScaledTests):
    operator = "exp"
    ulp: ClassVar = {"directml:software": 64}  # 2^(x log2 e), the exponent rounded to float32: the error grows with |x|
    levels = "1.0: 4D F32 F16 | 3.0: 1-8D F32 F16"
    sample = case("two dimensions", [[[-INF, 0, INF], [0, -INF, 0]]], [[0, 1, INF], [1, 0, 1]])
    scaled = case("e^(2x − 1)", [[0.5, 1]], [1, exact.rounded(exact.exp(exact.Fraction(1)), "float32")])
    cases = (
        *each_dtype(FLOATS, "special values", [[0.0, -0.0, INF, -INF, NAN]], [1, 1, INF, 0.0, NAN]),
        *rounded_cases("e^x to the last bit", exact.exp, [1, -1, 0.5, 2.5, -7.25, 10, 11, -9, 1e-3]),
        case(
            "overflow and underflow",
            [[88.7, 89.0, -104.0]],
            [exact.rounded(exact.exp(exact.values([88.7], "float32")[0]), "float32"), INF, 0.0],
        ),
        case(
            "overflow and underflow",
            [[11.0, 12.0, -18.0]],
            [exact.rounded(exact.exp(exact.Fraction(11)), "float16"), INF, 0.0],
            "float16",
        ),
        # Rounding to float32 first would give a neighbouring number.
        *rounded_cases("rounds once", exact.exp, [0.007297515869140625, 0.0226898193359375]),
    )
