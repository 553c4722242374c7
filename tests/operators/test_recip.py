"""ELEMENT_WISE_RECIP: 1 / x."""

from __future__ import annotations

from fractions import Fraction

from support.operators import exact
from support.operators.checks import ScaledTests
from support.operators.harness import FLOATS, INF, NAN, case, each_dtype, rounded_cases


class TestRecip(ScaledTests):
    operator = "recip"
    levels = "1.0: 4D F32 F16 | 3.0: 1-8D F32 F16"
    sample = case("two dimensions", [[[1, 2, -4], [0.5, INF, 0]]], [[1, 0.5, -0.25], [2, 0, INF]])
    scaled = case("1 / (2x − 1)", [[1, 1.5, 0.5]], [1, 0.5, INF])
    cases = (
        *each_dtype(FLOATS, "powers of two", [[1, -2, 0.25]], [1, -0.5, 4]),
        *each_dtype(FLOATS, "zeros and infinities", [[0.0, -0.0, INF, -INF, NAN]], [INF, -INF, 0.0, -0.0, NAN]),
        *rounded_cases("1 / x to the last bit", lambda x: 1 / Fraction(x), [3, -7, 10, 0.1, 1.5, 1e-3, 12345]),
        case("beyond the range", [[2.0**-24, 65504]], [INF, 2.0**-16], "float16"),
        case(
            "float16 is rounded after the scale",
            [[65504, 30000]],
            [0.0, exact.rounded(Fraction(1, 60000 - 1), "float16")],
            "float16",
            scale_bias={"scale": 2, "bias": -1},
        ),
    )
