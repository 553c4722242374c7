"""ACTIVATION_SIGMOID: 1 / (1 + e^−x)."""

from __future__ import annotations

from support.operators import exact
from support.operators.activations import ActivationTests
from support.operators.harness import FLOATS, INF, NAN, case, each_dtype, rounded_cases


class TestActivationSigmoid(ActivationTests):
    operator = "activation_sigmoid"
    sample = case("two dimensions", [[[0, INF, -INF], [-INF, 0, INF]]], [[0.5, 1, 0], [0, 0.5, 1]])
    cases = (
        *each_dtype(FLOATS, "special values", [[0.0, -0.0, INF, -INF, NAN]], [0.5, 0.5, 1, 0.0, NAN]),
        *each_dtype(FLOATS, "far out it is 1 or 0", [[100, -1000, 60000, -60000]], [1, 0.0, 1, 0.0]),
        *rounded_cases("to the last bit", exact.sigmoid, [1, -1, 0.5, 4, -4, 8.5, -10, 1e-3]),
        *rounded_cases("rounds once", exact.sigmoid, [0.0029296875, 0.0068359375, -0.00146484375, -0.00341796875]),
    )
