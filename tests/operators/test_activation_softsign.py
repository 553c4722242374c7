"""ACTIVATION_SOFTSIGN: x / (1 + |x|)."""

from __future__ import annotations

from support.operators.activations import ActivationTests, formula_cases, softsign
from support.operators.harness import FLOATS, INF, NAN, case, each_dtype


class TestActivationSoftsign(ActivationTests):
    operator = "activation_softsign"
    sample = case("two dimensions", [[[0, 1, -1], [3, -3, 7]]], [[0, 0.5, -0.5], [0.75, -0.75, 0.875]])
    cases = (
        *each_dtype(FLOATS, "fractions", [[1, -1, 3, -0.0, 0.0]], [0.5, -0.5, 0.75, -0.0, 0.0]),
        *each_dtype(FLOATS, "infinity by infinity is no number", [[INF, -INF, NAN]], [NAN, NAN, NAN]),
        case("float16 does not overflow", [[65504, -65504]], [1, -1], "float16"),
        *formula_cases("to the last bit", softsign),
    )
