"""ELEMENT_WISE_ATAN_YX: the angle of the point (b, a), from −π to π; a is y, b is x."""

from __future__ import annotations

from decimal import Decimal
from typing import ClassVar

from support.operators import exact
from support.operators.checks import BinaryTests
from support.operators.families import ApproximatedTests
from support.operators.harness import FLOATS, INF, NAN, Case, case, each_dtype

PI = 4 * exact.atan(exact.Fraction(1))


def angles(why: str, y: list[float], x: list[float], eighths: list[float], dtype: str) -> Case:
    """Points at angles of whole multiples of π/4."""
    return case(why, [y, x], [exact.rounded(PI * Decimal(each) / 4, dtype) for each in eighths], dtype)


def points(why: str, y: list[float], x: list[float], dtype: str) -> Case:
    ys, xs = exact.values(y, dtype), exact.values(x, dtype)
    results = exact.round_all(map(exact.atan_yx, ys, xs), dtype)
    return case(why, [[float(each) for each in ys], [float(each) for each in xs]], results, dtype)


class TestAtanYx(ApproximatedTests, BinaryTests):
    operator = "atan_yx"
    levels = "3.1: 1-8D F32 F16"
    error = 2e-5
    ulp: ClassVar = {"directml:software": 1}
    differing: ClassVar = {"NaN (float32)": "angles"}
    half, whole = (exact.rounded(PI / Decimal(parts), "float32") for parts in (2, 1))
    sample = case(
        "two dimensions", [[[0, 1, 0], [-1, 2, -3]], [[1, 0, -1], [0, 0, 0]]], [[0, half, whole], [-half, half, -half]]
    )
    cases = (
        *(
            angles("all quadrants", [1, 1, 1, -1, -1, -1], [1, 0.0, -1, 1, 0.0, -1], [1, 2, 3, -1, -2, -3], dtype)
            for dtype in FLOATS
        ),
        *(angles("on the axes", [0.0, 2, 0.0, -2], [3, 0.0, -3, 0.0], [0, 2, 4, -2], dtype) for dtype in FLOATS),
        *(
            angles("infinities", [INF, INF, -INF, 1, 1], [1, INF, -INF, INF, -INF], [2, 1, -3, 0, 4], dtype)
            for dtype in FLOATS
        ),
        *each_dtype(FLOATS, "NaN", [[NAN, 1], [1, NAN]], [NAN, NAN]),
        *(
            points("to the last bit", [0.5, -2, 3, 0.001, -7, 1], [2, 0.25, -4, 5, -0.125, -1000], dtype)
            for dtype in FLOATS
        ),
    )
