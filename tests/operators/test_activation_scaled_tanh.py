"""ACTIVATION_SCALED_TANH: alpha · tanh(beta · x)."""

from __future__ import annotations

from support.operators.activations import ActivationTests, formula_cases, scaled_tanh
from support.operators.harness import FLOATS, INF, NAN, case, each_dtype


class TestActivationScaledTanh(ActivationTests):
    operator = "activation_scaled_tanh"
    sample = case("two dimensions", [[[0, INF, -INF], [-INF, 0, INF]]], [[0, 3, -3], [-3, 0, 3]], alpha=3)
    cases = (
        *each_dtype(FLOATS, "special values", [[0.0, INF, -INF, NAN]], [0.0, 1, -1, NAN]),
        *each_dtype(FLOATS, "alpha scales", [[INF, -1000]], [-2.5, 2.5], alpha=-2.5),
        *each_dtype(FLOATS, "beta turns", [[INF, -1000]], [-1, 1], beta=-1),
        *each_dtype(FLOATS, "beta zero", [[5, -5]], [0.0, -0.0], beta=0),
        *formula_cases("alpha is 1, beta 0.5 unless given", scaled_tanh),
        *formula_cases("alpha", scaled_tanh, alpha=1.7),
        *formula_cases("beta", scaled_tanh, beta=0.66),
    )
