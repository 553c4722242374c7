"""1 at the first greatest element: ACTIVATION_HARDMAX along the last axis, ACTIVATION_HARDMAX1 over its axes."""

from __future__ import annotations

from typing import Any, ClassVar

from support.operators.harness import FLOATS, INF, NAN, Case, case, each_dtype
from support.operators.softmaxes import ChosenAxesTests, LastAxisTests, hardmax, rows, sets_of_axes


def special_rows(**fields: Any) -> list[Case]:
    return [
        *rows(hardmax, **fields),
        *each_dtype(FLOATS, "the first of equal ones", [[[3, 5, 5, 5]]], [[0, 1, 0, 0]], **fields),
        *each_dtype(FLOATS, "the zeros are equal", [[[-1, -0.0, 0.0]]], [[0, 1, 0]], **fields),
        *each_dtype(FLOATS, "infinities", [[[1, INF, -INF], [-INF] * 3]], [[0, 1, 0], [1, 0, 0]], **fields),
        # Measured.
        *each_dtype(FLOATS, "NaN is not greater", [[[1, NAN, 5], [-INF, NAN, NAN]]], [[0, 0, 1], [1, 0, 0]], **fields),
        *each_dtype(FLOATS, "nothing is greater than a first NaN", [[[NAN, INF, NAN]]], [[1, 0, 0]], **fields),
    ]


class TestActivationHardmax(LastAxisTests):
    operator = "activation_hardmax"
    ulp: ClassVar = {}
    sample = case("two dimensions", [[[1, 2, 3], [9, 5, 9]]], [[0, 0, 1], [1, 0, 0]])
    cases = (
        *special_rows(),
        *each_dtype(FLOATS, "one dimension is one row", [[1, 3, 2]], [0, 1, 0]),
        case("more dimensions", [[[[[1, 3], [2, 2]]]]], [[[[0, 1], [1, 0]]]]),
    )


class TestActivationHardmax1(ChosenAxesTests):
    operator = "activation_hardmax1"
    ulp: ClassVar = {}
    sample = case("two dimensions", [[[1, 2, 3], [9, 5, 9]]], [[0, 0, 1], [1, 0, 0]], axes=[1])
    cases = (*special_rows(axes=[1]), *sets_of_axes(hardmax))
