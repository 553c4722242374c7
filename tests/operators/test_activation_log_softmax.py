"""The logarithm of the softmax: ACTIVATION_LOG_SOFTMAX along the last axis, ACTIVATION_LOG_SOFTMAX1 over its axes."""

from __future__ import annotations

from typing import Any

import pytest
from support.operators.harness import FLOATS, INF, NAN, Case, array, assert_same, case, each_dtype, run
from support.operators.softmaxes import ChosenAxesTests, LastAxisTests, log_softmax, rows, sets_of_axes


def special_rows(**fields: Any) -> list[Case]:
    return [
        *rows(log_softmax, **fields),
        *each_dtype(FLOATS, "a single element is 0", [[[-7], [7]]], [[0], [0]], **fields),
        *each_dtype(FLOATS, "large differences stay", [[[1000, 0, -1000]]], [[0, -1000, -2000]], **fields),
        *each_dtype(FLOATS, "−∞ takes no part", [[[-INF, 1]]], [[-INF, 0]], **fields),
        *each_dtype(FLOATS, "−∞ alone leaves no number", [[[-INF, -INF]]], [[NAN, NAN]], **fields),
    ]


class TestActivationLogSoftmax(LastAxisTests):
    operator = "activation_log_softmax"
    sample = case("two dimensions", [[[7, -INF, -INF], [0, -INF, -1000]]], [[0, -INF, -INF], [0, -INF, -1000]])
    cases = (
        *special_rows(),
        *each_dtype(FLOATS, "one dimension is one row", [[0, 1000]], [-1000, 0]),
        case("more dimensions", [[[[[0, 1000], [-1000, 0]]]]], [[[[-1000, 0], [-1000, 0]]]]),
    )

    @pytest.mark.parametrize("dtype", FLOATS)
    def test_nan_and_infinity_spread_along_their_rows(self, dtype: str) -> None:
        """DirectML takes the logarithm of 1e−20 instead of NaN, so its results are useless."""
        x = array([[NAN, 1, 2], [INF, 1, 2], [-INF, 0, -INF]], dtype)
        got = run(self.operator, [x])
        assert_same(got, array([[NAN] * 3, [NAN] * 3, [-INF, 0, -INF]], dtype))


class TestActivationLogSoftmax1(ChosenAxesTests):
    operator = "activation_log_softmax1"
    sample = case(
        "two dimensions", [[[7, -INF, -INF], [0, -INF, -1000]]], [[0, -INF, -INF], [0, -INF, -1000]], axes=[1]
    )
    cases = (*special_rows(axes=[1]), *sets_of_axes(log_softmax))
