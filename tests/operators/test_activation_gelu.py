"""ACTIVATION_GELU: ½ x (1 + erf(x / √2))."""

from __future__ import annotations

from support.operators.activations import ActivationTests, formula_cases, gelu
from support.operators.harness import FLOATS, INF, NAN, case, each_dtype


class TestActivationGelu(ActivationTests):
    operator = "activation_gelu"
    levels = "5.1: 1-8D F32 F16"
    sample = case("two dimensions", [[[0, 10, 20], [-40, 0, 30]]], [[0, 10, 20], [-0.0, 0, 30]])
    cases = (
        *each_dtype(FLOATS, "zeros and infinity", [[0.0, -0.0, INF, NAN]], [0.0, -0.0, INF, NAN]),
        *each_dtype(FLOATS, "minus infinity times zero is no number", [[-INF]], [NAN]),
        *each_dtype(FLOATS, "far above zero x, far below −0", [[1000, -1000]], [1000, -0.0]),
        *formula_cases("to the last bit", gelu, [0.5, 1, 3.25, -0.5, -1, -2.75, 1e-3, -1e-3, 5]),
    )
