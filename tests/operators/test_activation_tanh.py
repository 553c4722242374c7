"""ACTIVATION_TANH: tanh x."""

from __future__ import annotations

from support.operators import exact
from support.operators.activations import ActivationTests
from support.operators.harness import FLOATS, INF, NAN, case, each_dtype, rounded_cases


class TestActivationTanh(ActivationTests):
    operator = "activation_tanh"
    sample = case("two dimensions", [[[0, INF, -INF], [-INF, 0, INF]]], [[0, 1, -1], [-1, 0, 1]])
    cases = (
        *each_dtype(FLOATS, "special values", [[0.0, -0.0, INF, -INF, NAN]], [0.0, -0.0, 1, -1, NAN]),
        *each_dtype(FLOATS, "far out it is ±1", [[100, -100, 60000]], [1, -1, 1]),
        *rounded_cases("to the last bit", exact.tanh, [1, -1, 0.5, 0.125, -2.75, 5, 1e-3, 1e-5]),
    )
