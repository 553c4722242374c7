"""The smooth rectifiers.

ACTIVATION_SOFTPLUS: ln(1 + e^(steepness · x)) / steepness.
ACTIVATION_PARAMETRIC_SOFTPLUS: alpha · ln(1 + e^(beta · x)).
"""

from __future__ import annotations

import pytest
from support.operators.activations import ActivationTests, formula_cases, parametric_softplus, softplus
from support.operators.harness import FLOATS, INF, NAN, array, build, case, each_dtype, refused

import dmlgraph as dg


class TestActivationSoftplus(ActivationTests):
    operator = "activation_softplus"
    sample = case("two dimensions", [[[100, -INF, 200], [-INF, INF, 300]]], [[100, 0, 200], [0, INF, 300]])
    cases = (
        *each_dtype(FLOATS, "special values", [[INF, -INF, NAN]], [INF, 0, NAN]),
        *each_dtype(FLOATS, "far above zero x, far below 0", [[1000, -1000, 60000]], [1000, 0, 60000]),
        *formula_cases("steepness is 1 unless given", softplus, [0, 1, -1, 0.5, 3.25, -5, 12, 1e-3, 30]),
        *formula_cases("steepness", softplus, [0, 1, -1, 0.5, 3.25, -5, 12, 1e-3, 30], steepness=2.5),
        *formula_cases("nothing is lost far below zero", softplus, [-16.5]),
    )

    @pytest.mark.parametrize("level", dg.FeatureLevel, ids=str)
    def test_a_steepness_below_1_is_legal_from_6_4(self, level: dg.FeatureLevel) -> None:
        x = array([[[[1]]]], "float32")
        if level >= dg.FeatureLevel.V6_4:
            build(self.operator, [x], target=str(level), steepness=0.5)
        else:
            error = refused(self.operator, [x], target=str(level), steepness=0.5)
            assert (error.field, error.got, error.allowed) == ("steepness", 0.5, "1 or more")
            assert f"at feature level {level}; less is legal from 6.4" in str(error)

    def test_a_steepness_of_nan_is_not_1_or_more(self) -> None:
        error = refused(self.operator, [array([[[[1]]]], "float32")], target="6.2", steepness=NAN)
        assert (error.field, error.allowed) == ("steepness", "1 or more")

    def test_a_steepness_below_1(self) -> None:
        for row in formula_cases("gentle", softplus, [0, 1, -1, 0.5, 3.25, -5, 12], steepness=0.3):
            self.check_row(row, "reference")


class TestActivationParametricSoftplus(ActivationTests):
    operator = "activation_parametric_softplus"
    sample = case(
        "two dimensions", [[[100, -INF, 200], [-INF, INF, 300]]], [[400, 0, 800], [0, INF, 1200]], alpha=2, beta=2
    )
    cases = (
        *each_dtype(FLOATS, "special values", [[INF, -INF, NAN]], [INF, 0, NAN], alpha=1, beta=2),
        *each_dtype(FLOATS, "turned around", [[-INF, INF, -100]], [-INF, -0.0, -300], alpha=-1, beta=-3),
        *formula_cases("alpha", parametric_softplus, [0, 1, -1, 0.5, 3.25, -5, 12, 1e-3], alpha=-1.5, beta=1),
        *formula_cases("beta", parametric_softplus, [0, 1, -1, 0.5, 3.25, -5, 12, 1e-3], alpha=1, beta=-0.3),
        *formula_cases("beta zero", parametric_softplus, [0, 5, -100], alpha=2, beta=0),
    )
