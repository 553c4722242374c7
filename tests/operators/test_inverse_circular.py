"""ELEMENT_WISE_ASIN, ELEMENT_WISE_ACOS, ELEMENT_WISE_ATAN: angles in radians from their sine, cosine, tangent.

DirectML approximates them in float32 by polynomials; in float16 that is exact.
"""

from __future__ import annotations

from decimal import Decimal
from typing import ClassVar

from support.operators import exact
from support.operators.checks import ScaledTests
from support.operators.families import ApproximatedTests
from support.operators.harness import FLOATS, INF, NAN, case, each_dtype, rounded_cases

PI = 4 * exact.atan(exact.Fraction(1))
HALF, QUARTER, WHOLE = (exact.rounded(PI / Decimal(parts), "float32") for parts in (2, 4, 1))


class InverseTests(ApproximatedTests, ScaledTests):
    levels = "1.0: 4D F32 F16 | 3.0: 1-8D F32 F16"
    ulp: ClassVar = {"directml:software": 1}


class TestAsin(InverseTests):
    operator = "asin"
    error = 7e-5
    sample = case("two dimensions", [[[1, -1, 2], [-2, 1, NAN]]], [[HALF, -HALF, NAN], [NAN, HALF, NAN]])
    scaled = case("asin(2x − 1)", [[0, 1, 2]], [-HALF, HALF, NAN])
    cases = (
        *each_dtype(FLOATS, "zeros keep their sign", [[0.0, -0.0]], [0.0, -0.0]),
        *each_dtype(FLOATS, "NaN outside [−1, 1]", [[1.0009765625, -1.0009765625, 2, INF, -INF, NAN]], [NAN] * 6),
        *rounded_cases("asin x to the last bit", exact.asin, [1, -1, 0.5, -0.5, 0.1, 0.999, -0.75, 1e-3]),
    )


class TestAcos(InverseTests):
    operator = "acos"
    error = 7e-5
    sample = case("two dimensions", [[[1, -1, 2], [-2, 1, NAN]]], [[0, WHOLE, NAN], [NAN, 0, NAN]])
    scaled = case("acos(2x − 1)", [[0, 1, 2]], [WHOLE, 0.0, NAN])
    cases = (
        *each_dtype(FLOATS, "0 at one", [[1.0]], [0.0]),
        *each_dtype(FLOATS, "NaN outside [−1, 1]", [[1.0009765625, -1.0009765625, 2, INF, -INF, NAN]], [NAN] * 6),
        *rounded_cases("acos x to the last bit", exact.acos, [-1, 0, 0.5, -0.5, 0.1, 0.999, -0.75, 1e-3]),
    )


class TestAtan(InverseTests):
    operator = "atan"
    error = 2e-5
    differing: ClassVar = {"NaN (float32)": "atan NaN is 0.7854096 in float32"}
    sample = case("two dimensions", [[[0, INF, -INF], [INF, 0, 0]]], [[0, HALF, -HALF], [HALF, 0, 0]])
    scaled = case("atan(2x − 1)", [[0.5, INF]], [0.0, HALF])
    cases = (
        *each_dtype(FLOATS, "zeros keep their sign", [[0.0, -0.0]], [0.0, -0.0]),
        *each_dtype(FLOATS, "NaN", [[NAN]], [NAN]),
        case("a quarter turn at ±∞", [[INF, -INF]], [HALF, -HALF]),
        case(
            "a quarter turn at ±∞",
            [[INF, -INF]],
            [exact.rounded(PI / 2, "float16"), -exact.rounded(PI / 2, "float16")],
            "float16",
        ),
        case("an eighth turn at one", [[1, -1]], [QUARTER, -QUARTER]),
        *rounded_cases("atan x to the last bit", exact.atan, [1, -1, 0.5, -0.5, 0.1, 3, -10, 1e-3, 60000]),
    )
