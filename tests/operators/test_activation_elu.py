"""The exponential linear units: ACTIVATION_ELU, ACTIVATION_CELU, ACTIVATION_SCALED_ELU.

Below zero they are alpha · (e^x − 1), alpha · (e^(x / alpha) − 1) and gamma · alpha · (e^x − 1).
"""

from __future__ import annotations

from support.operators.activations import ActivationTests, celu, elu, formula_cases, scaled_elu
from support.operators.harness import FLOATS, INF, NAN, array, assert_same, case, each_dtype, run

from dmlgraph.devices.names import DeviceName


class TestActivationElu(ActivationTests):
    operator = "activation_elu"
    sample = case("two dimensions", [[[1, -INF, 3], [-INF, 0, 6]]], [[1, -2, 3], [-2, 0, 6]], alpha=2)
    cases = (
        *each_dtype(FLOATS, "above zero x itself", [[0.5, 7, 1000]], [0.5, 7, 1000], alpha=3),
        *each_dtype(FLOATS, "far below zero −alpha", [[-INF, -1000]], [-3, -3], alpha=3),
        *each_dtype(FLOATS, "special values", [[0.0, -0.0, INF, NAN]], [0.0, -0.0, INF, NAN]),
        *formula_cases("alpha is 1 unless given", elu),
        *formula_cases("alpha", elu, alpha=2.3),
        *formula_cases("a negative alpha", elu, alpha=-1),
        *formula_cases("nothing is lost near zero", elu, [-1e-4, -1e-12]),
    )


class TestActivationCelu(ActivationTests):
    operator = "activation_celu"
    levels = "3.0: 1-8D F32 F16"
    sample = case("two dimensions", [[[1, -INF, 3], [-INF, 0, 6]]], [[1, -2, 3], [-2, 0, 6]], alpha=2)
    cases = (
        *each_dtype(FLOATS, "above zero x itself", [[0.5, 7, 1000]], [0.5, 7, 1000], alpha=3),
        *each_dtype(FLOATS, "far below zero −alpha", [[-INF, -1000]], [-3, -3], alpha=3),
        *each_dtype(FLOATS, "infinity", [[INF]], [INF]),
        *formula_cases("alpha is 1 unless given", celu),
        *formula_cases("alpha bends it slower", celu, alpha=2.3),
        *formula_cases("a negative alpha grows below zero", celu, [2, 0.5, -0.5, -1, -3], alpha=-2),
        *each_dtype(FLOATS, "alpha zero cuts", [[2, 0.5, 0, -0.5, -INF]], [2, 0.5, 0, 0, 0], alpha=0),
    )

    def test_the_zeros_and_nan_become_zero(self, device: DeviceName) -> None:
        """Measured: the formula is a sum, and HLSL's max and min ignore NaN."""
        for dtype in FLOATS:
            got = run(self.operator, [array([0.0, -0.0, NAN], dtype)], device=device)
            assert_same(got, array([0.0, 0.0, 0.0], dtype))


class TestActivationScaledElu(ActivationTests):
    operator = "activation_scaled_elu"
    sample = case("two dimensions", [[[1, -INF, 3], [-INF, 0, 6]]], [[3, -6, 9], [-6, 0, 18]], alpha=2, gamma=3)
    cases = (
        *each_dtype(FLOATS, "above zero gamma · x", [[0.5, 7, 1000]], [1, 14, 2000], alpha=3, gamma=2),
        *each_dtype(FLOATS, "far below zero −alpha · gamma", [[-INF, -1000]], [-6, -6], alpha=3, gamma=2),
        *each_dtype(FLOATS, "special values", [[0.0, -0.0, INF, NAN]], [0.0, -0.0, INF, NAN]),
        *formula_cases("alpha is 1.673, gamma 1.051 unless given", scaled_elu),
        *formula_cases("alpha", scaled_elu, alpha=0.7),
        *formula_cases("gamma", scaled_elu, gamma=0.7),
    )

    def test_zero_belongs_to_the_line(self, device: DeviceName) -> None:
        """Measured: gamma · 0, although alpha · gamma · (e^0 − 1) would have another sign."""
        got = run(self.operator, [array([0.0, -0.0], "float32")], device=device, alpha=-1, gamma=2)
        assert_same(got, array([0.0, -0.0], "float32"))
