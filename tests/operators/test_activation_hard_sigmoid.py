"""ACTIVATION_HARD_SIGMOID: max(0, min(alpha · x + beta, 1))."""

from __future__ import annotations

from support.operators.activations import ActivationTests, formula_cases, hard_sigmoid
from support.operators.harness import FLOATS, INF, NAN, case, each_dtype


class TestActivationHardSigmoid(ActivationTests):
    operator = "activation_hard_sigmoid"
    sample = case("two dimensions", [[[1, -2, 3], [0, -1, 6]]], [[0.75, 0, 1], [0.5, 0.25, 1]], alpha=0.25)
    cases = (
        *each_dtype(FLOATS, "between 0 and 1", [[-4, -2, 0, 2, 4]], [0, 0.25, 0.75, 1, 1], alpha=0.25, beta=0.75),
        *each_dtype(FLOATS, "falling", [[-4, 0, 0.125, 4]], [1, 0.5, 0.25, 0], alpha=-2),
        *each_dtype(FLOATS, "infinities", [[INF, -INF]], [1, 0]),
        # max(0, NaN) is 0, as in HLSL; measured.
        *each_dtype(FLOATS, "NaN becomes 0", [[NAN]], [0]),
        *each_dtype(FLOATS, "zero times infinity is no number", [[INF, 7]], [0, 0.25], alpha=0, beta=0.25),
        *formula_cases("alpha is 0.2, beta 0.5 unless given", hard_sigmoid, [0.5, 1, 3.25, -0.5, -1, 1e-3, 2, -3]),
        *formula_cases("alpha", hard_sigmoid, [0.5, 1, -0.5, -1, 1e-3], alpha=0.3),
        *formula_cases("beta", hard_sigmoid, [0.5, 1, -0.5, -1, 1e-3], beta=0.3),
    )
