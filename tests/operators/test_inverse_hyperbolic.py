"""ELEMENT_WISE_ASINH, ELEMENT_WISE_ACOSH, ELEMENT_WISE_ATANH: by the documented formulas, step by step in float32."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import ClassVar

from support.operators import exact
from support.operators.checks import ScaledTests
from support.operators.exact import float32
from support.operators.harness import FLOATS, INF, NAN, Case, case, each_dtype, rounded_cases


def by_root(x: Fraction, one: int) -> Decimal:
    """ln(x + √(x² + one)), every step except the last in float32."""
    root = float32(exact.sqrt(float32(float32(x * x) + one)))
    return exact.log(float32(x + root))


def asinh(x: Fraction) -> Decimal:
    return by_root(x, 1)


def acosh(x: Fraction) -> Decimal:
    return by_root(x, -1)


def atanh(x: Fraction) -> Decimal:
    """½ ln((1 + x) / (1 − x)), every step except the last in float32."""
    return exact.log(float32(float32(1 + x) / float32(1 - x))) / 2


def scaled_far(function: Callable[[Fraction], Decimal]) -> Case:
    """A float16 that the scale moves beyond its range: it is not rounded before the function."""
    result = exact.rounded(function(Fraction(4 * 10**8)), "float16")
    return case("a scaled float16 is a float32", [[4]], [result], "float16", scale_bias={"scale": 1e8})


class InverseTests(ScaledTests):
    levels = "2.0: 4D F32 F16 | 3.0: 1-8D F32 F16"
    ulp: ClassVar = {"directml:software": 1}


class TestAsinh(InverseTests):
    operator = "asinh"
    sample = case("two dimensions", [[[0, INF, 0], [0, 0, NAN]]], [[0, INF, 0], [0, 0, NAN]])
    scaled = case("asinh(2x − 1)", [[0.5, 1]], [0.0, exact.rounded(asinh(Fraction(1)), "float32")])
    cases = (
        *each_dtype(FLOATS, "zeros and infinities", [[0.0, -0.0, INF, NAN]], [0.0, 0.0, INF, NAN]),
        *each_dtype(FLOATS, "NaN at −∞: ∞ − ∞", [[-INF]], [NAN]),
        *rounded_cases("ln(x + √(x² + 1))", asinh, [0.5, 1, -1, 3, 100, 1e-3, 60000]),
        *rounded_cases("digits cancel below zero", asinh, [-9.75, -100, -1000]),
        *each_dtype(FLOATS, "all of them at last", [[-60000]], [-INF]),
        case("the square overflows", [[1e18, 2e19]], [exact.rounded(asinh(float32(Fraction(10**18))), "float32"), INF]),
        scaled_far(asinh),
    )


class TestAcosh(InverseTests):
    operator = "acosh"
    sample = case("two dimensions", [[[1, INF, 0], [-1, 1, NAN]]], [[0, INF, NAN], [NAN, 0, NAN]])
    scaled = case("acosh(2x − 1)", [[1, 1.5, 0]], [0.0, exact.rounded(acosh(Fraction(2)), "float32"), NAN])
    cases = (
        *each_dtype(FLOATS, "0 at one", [[1, INF]], [0.0, INF]),
        *each_dtype(FLOATS, "NaN below one", [[0.5, 0.0, -0.5, -1, -2, -INF, NAN]], [NAN] * 7),
        *rounded_cases("ln(x + √(x² − 1))", acosh, [1.5, 2, 3, 100, 1.001, 60000]),
        *each_dtype(FLOATS, "−∞ where −x − x is left of the root", [[-60000]], [-INF]),
        case("the square overflows", [[1e18, 2e19]], [exact.rounded(acosh(float32(Fraction(10**18))), "float32"), INF]),
        scaled_far(acosh),
    )


class TestAtanh(InverseTests):
    operator = "atanh"
    sample = case("two dimensions", [[[0, 1, -1], [2, 0, NAN]]], [[0, INF, -INF], [NAN, 0, NAN]])
    scaled = case(
        "atanh(2x − 1)", [[0.5, 1, 0, 0.75]], [0.0, INF, -INF, exact.rounded(atanh(Fraction(1, 2)), "float32")]
    )
    cases = (
        *each_dtype(FLOATS, "zeros", [[0.0, -0.0]], [0.0, 0.0]),
        *each_dtype(FLOATS, "±∞ at ±1", [[1, -1]], [INF, -INF]),
        *each_dtype(FLOATS, "NaN beyond", [[1.5, -1.5, INF, -INF, NAN]], [NAN] * 5),
        *rounded_cases("½ ln((1 + x) / (1 − x))", atanh, [0.5, -0.5, 0.1, 0.999, -0.75, 1e-3]),
    )
