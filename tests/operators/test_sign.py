"""ELEMENT_WISE_SIGN: −1 below zero, 1 above, else 0."""

from __future__ import annotations

from support.operators import exact
from support.operators.checks import UnaryTests
from support.operators.harness import FLOATS, INF, INTEGERS, NAN, SIGNED, UNSIGNED, case, each_dtype


class TestSign(UnaryTests):
    operator = "sign"
    levels = "2.0: 4D F32 F16 | 2.1: 4D ALL8 | 3.0: 1-8D ALL8 | 4.1: 1-8D ALL10"
    sample = case("two dimensions", [[[1, -2, 0], [-4, 5, 0]]], [[1, -1, 0], [-1, 1, 0]])
    cases = (
        *each_dtype(FLOATS + INTEGERS, "above and at zero", [[7, 0, 1]], [1, 0, 1]),
        *each_dtype(FLOATS + SIGNED, "below zero", [[-7, -1]], [-1, -1]),
        *each_dtype(FLOATS, "0 for both zeros and NaN", [[0.0, -0.0, NAN]], [0.0, 0.0, 0.0]),
        *each_dtype(FLOATS, "infinities and fractions", [[INF, -INF, 0.25, -0.25]], [1, -1, 1, -1]),
        *(case("extremes", [[*exact.limits(dtype)]], [-1, 1], dtype) for dtype in SIGNED),
        *(case("extremes", [[*exact.limits(dtype)]], [0, 1], dtype) for dtype in UNSIGNED),
    )
