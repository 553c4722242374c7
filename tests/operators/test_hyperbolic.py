"""ELEMENT_WISE_SINH, ELEMENT_WISE_COSH, ELEMENT_WISE_TANH."""

from __future__ import annotations

from typing import ClassVar

from support.operators import exact
from support.operators.checks import ScaledTests
from support.operators.families import ApproximatedTests
from support.operators.harness import FLOATS, INF, NAN, case, each_dtype, rounded_cases

ONE = exact.Fraction(1)


class HyperbolicTests(ApproximatedTests, ScaledTests):
    levels = "2.0: 4D F32 F16 | 3.0: 1-8D F32 F16"
    ulp: ClassVar = {"directml:software": 2}


class TestSinh(HyperbolicTests):
    operator = "sinh"
    error = 1e-3  # of results up to 2000
    differing: ClassVar = {"beyond e^88 (float32)": "the power overflows before it is halved"}
    sample = case("two dimensions", [[[0, INF, 0], [-INF, 0, NAN]]], [[0, INF, 0], [-INF, 0, NAN]])
    scaled = case("sinh(2x − 1)", [[0.5, 1]], [0.0, exact.rounded(exact.sinh(ONE), "float32")])
    cases = (
        *each_dtype(FLOATS, "zeros keep their sign", [[0.0, -0.0]], [0.0, -0.0]),
        *each_dtype(FLOATS, "infinities and NaN", [[INF, -INF, NAN]], [INF, -INF, NAN]),
        *rounded_cases("sinh x to the last bit", exact.sinh, [0.5, 1, -1, 3, -7.25, 0.1, 1e-3]),
        case(
            "overflow",
            [[11.75, 12, -12]],
            [exact.rounded(exact.sinh(exact.Fraction(47, 4)), "float16"), INF, -INF],
            "float16",
        ),
        case("overflow", [[90, -90]], [INF, -INF]),
        case("beyond e^88", [[89]], [exact.rounded(exact.sinh(exact.Fraction(89)), "float32")]),
    )


class TestCosh(HyperbolicTests):
    operator = "cosh"
    error = 1e-3  # of results up to 2000
    differing: ClassVar = {"beyond e^88 (float32)": "the power overflows before it is halved"}
    sample = case("two dimensions", [[[0, INF, 0], [-INF, 0, NAN]]], [[1, INF, 1], [INF, 1, NAN]])
    scaled = case("cosh(2x − 1)", [[0.5, 1]], [1.0, exact.rounded(exact.cosh(ONE), "float32")])
    cases = (
        *each_dtype(FLOATS, "1 at both zeros", [[0.0, -0.0]], [1.0, 1.0]),
        *each_dtype(FLOATS, "infinities and NaN", [[INF, -INF, NAN]], [INF, INF, NAN]),
        *rounded_cases("cosh x to the last bit", exact.cosh, [0.5, 1, -1, 3, -7.25, 0.1, 1e-3]),
        case(
            "overflow",
            [[11.75, 12, -12]],
            [exact.rounded(exact.cosh(exact.Fraction(47, 4)), "float16"), INF, INF],
            "float16",
        ),
        case("overflow", [[90, -90]], [INF, INF]),
        case("beyond e^88", [[89]], [exact.rounded(exact.cosh(exact.Fraction(89)), "float32")]),
    )


class TestTanh(HyperbolicTests):
    operator = "tanh"
    error = 5e-7
    sample = case("two dimensions", [[[0, INF, 0], [-INF, 0, NAN]]], [[0, 1, 0], [-1, 0, NAN]])
    scaled = case("tanh(2x − 1)", [[0.5, 1]], [0.0, exact.rounded(exact.tanh(ONE), "float32")])
    cases = (
        *each_dtype(FLOATS, "zeros keep their sign", [[0.0, -0.0]], [0.0, -0.0]),
        *each_dtype(FLOATS, "±1 at ±∞", [[INF, -INF, NAN, 30, -30]], [1, -1, NAN, 1, -1]),
        *rounded_cases("tanh x to the last bit", exact.tanh, [0.5, 1, -1, 3, -4.25, 0.1, 1e-3]),
    )
