"""ELEMENT_WISE_FLOOR and ELEMENT_WISE_CEIL: the whole numbers below and above x."""

from __future__ import annotations

from support.operators.checks import ScaledTests
from support.operators.harness import FLOATS, INF, NAN, case, each_dtype


class TestFloor(ScaledTests):
    operator = "floor"
    levels = "1.0: 4D F32 F16 | 3.0: 1-8D F32 F16"
    sample = case("two dimensions", [[[1.5, 2, -2.5], [0.25, -0.25, 7]]], [[1, 2, -3], [0, -1, 7]])
    scaled = case("⌊2x − 1⌋", [[0.75, 1, 0.25]], [0.0, 1, -1])
    cases = (
        *each_dtype(FLOATS, "not above", [[1.5, -1.5, 2.0, -2.0, 0.999, -0.001]], [1, -2, 2, -2, 0, -1]),
        *each_dtype(FLOATS, "special values", [[0.0, -0.0, INF, -INF, NAN]], [0.0, -0.0, INF, -INF, NAN]),
        case("large numbers are whole", [[2.0**23 - 0.5, 2.0**24, -1e30]], [2.0**23 - 1, 2.0**24, -1e30]),
    )


class TestCeil(ScaledTests):
    operator = "ceil"
    levels = "1.0: 4D F32 F16 | 3.0: 1-8D F32 F16"
    sample = case("two dimensions", [[[1.5, 2, -2.5], [0.25, -3.75, 7]]], [[2, 2, -2], [1, -3, 7]])
    scaled = case("⌈2x − 1⌉", [[0.75, 1, 0.5]], [1, 1, 0.0])
    cases = (
        *each_dtype(FLOATS, "not below", [[1.5, -1.5, 2.0, -2.0, 0.001, -1.001]], [2, -1, 2, -2, 1, -1]),
        *each_dtype(FLOATS, "up to zero from below is −0", [[-0.5, -0.001]], [-0.0, -0.0]),
        *each_dtype(FLOATS, "special values", [[0.0, -0.0, INF, -INF, NAN]], [0.0, -0.0, INF, -INF, NAN]),
        case("large numbers are whole", [[2.0**23 - 0.5, 2.0**24, -1e30]], [2.0**23, 2.0**24, -1e30]),
    )
