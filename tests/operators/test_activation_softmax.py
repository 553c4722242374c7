"""The softmax: e^x / Σ e^x, ACTIVATION_SOFTMAX along the last axis, ACTIVATION_SOFTMAX1 over its axes together."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from support.operators import exact
from support.operators.harness import FLOATS, INF, NAN, Case, array, case, each_dtype, run
from support.operators.softmaxes import ChosenAxesTests, LastAxisTests, rows, sets_of_axes

from dmlgraph.devices.names import DeviceName


def special_rows(**fields: Any) -> list[Case]:
    return [
        *rows(exact.softmax, **fields),
        *each_dtype(FLOATS, "equal elements share", [[[3, 3, 3, 3]]], [[0.25] * 4], **fields),
        *each_dtype(FLOATS, "a single element is 1", [[[-7], [7]]], [[1], [1]], **fields),
        *each_dtype(FLOATS, "large elements do not overflow", [[[60000, 60000, -60000]]], [[0.5, 0.5, 0]], **fields),
        *each_dtype(FLOATS, "−∞ takes no part", [[[-INF, 1, 1]]], [[0, 0.5, 0.5]], **fields),
        *each_dtype(FLOATS, "∞ leaves no number", [[[INF, 1], [-INF, -INF]]], [[NAN, NAN], [NAN, NAN]], **fields),
        *each_dtype(FLOATS, "NaN spreads along its row", [[[NAN, 1], [1, 1]]], [[NAN, NAN], [0.5, 0.5]], **fields),
    ]


class TestActivationSoftmax(LastAxisTests):
    operator = "activation_softmax"
    sample = case("two dimensions", [[[2, 2, -INF], [0, -INF, -INF]]], [[0.5, 0.5, 0], [1, 0, 0]])
    cases = (
        *special_rows(),
        *each_dtype(FLOATS, "one dimension is one row", [[1, 1]], [0.5, 0.5]),
        case("more dimensions", [[[[[1, 1], [2, 2]]]]], [[[[0.5, 0.5], [0.5, 0.5]]]]),
    )


class TestActivationSoftmax1(ChosenAxesTests):
    operator = "activation_softmax1"
    sample = case("two dimensions", [[[2, 2, -INF], [0, -INF, -INF]]], [[0.5, 0.5, 0], [1, 0, 0]], axes=[1])
    cases = (*special_rows(axes=[1]), *sets_of_axes(exact.softmax))

    def test_rows_add_up_to_one(self, device: DeviceName) -> None:
        x = array([[0.1 * i * j for i in range(50)] for j in range(4)], "float32")
        got = run(self.operator, [x], device=device, axes=[1])
        for row in got:
            assert abs(sum(map(Fraction, row.tolist()), Fraction(-1))) < Fraction(50, 2**24)
