"""ACTIVATION_IDENTITY: x, and ACTIVATION_LINEAR: alpha · x + beta."""

from __future__ import annotations

import numpy as np
from support.operators import exact
from support.operators.activations import OLD_LEVELS, ActivationTests, formula_cases, linear
from support.operators.checks import UnaryTests
from support.operators.harness import FLOATS, INF, NAN, bits_of, case, each_dtype, run


class TestActivationIdentity(UnaryTests):
    operator = "activation_identity"
    levels = OLD_LEVELS
    sample = case("two dimensions", [[[1, -2, 3], [4, 5, -6]]], [[1, -2, 3], [4, 5, -6]])
    cases = (
        *each_dtype(FLOATS, "a copy", [[0.0, -0.0, 1.5, INF, -INF, NAN]], [0.0, -0.0, 1.5, INF, -INF, NAN]),
        *each_dtype(FLOATS, "subnormal numbers stay", [[2.0**-24, -(2.0**-24)]], [2.0**-24, -(2.0**-24)]),
    )

    def test_copies_bits(self) -> None:
        x = exact.from_bits("float32", 0x7FC00001, 0x80000000, 1)
        np.testing.assert_array_equal(bits_of(run(self.operator, [x])), bits_of(x))


class TestActivationLinear(ActivationTests):
    operator = "activation_linear"
    sample = case("two dimensions", [[[1, -2, 3], [4, 5, -6]]], [[3, -3, 7], [9, 11, -11]], alpha=2, beta=1)
    cases = (
        *each_dtype(FLOATS, "scaled, then shifted", [[0, 1, -4]], [-1, -0.5, -3], alpha=0.5, beta=-1),
        *each_dtype(FLOATS, "alpha alone", [[0, 1, -4]], [0, -3, 12], alpha=-3, beta=0),
        *each_dtype(FLOATS, "beta alone", [[0, 1, -4]], [7, 7, 7], alpha=0, beta=7),
        *each_dtype(FLOATS, "special values", [[INF, -INF, NAN]], [-INF, INF, NAN], alpha=-2, beta=3),
        *each_dtype(FLOATS, "zero times infinity is no number", [[INF, -INF]], [NAN, NAN], alpha=0, beta=1),
        *formula_cases("to the last bit", linear, alpha=0.3, beta=-0.7),
    )
