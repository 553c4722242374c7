"""FusedActivation: every activation that DirectML fuses, in every operator that takes one."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dmlgraph as dg
from dmlgraph.operators import REGISTRY

from . import activations, exact
from .activations import ActivationTests
from .harness import FLOATS, array, assert_same, build, refused, run

# The activation with attributes other than the defaults, its formula, and the level from which it fuses.
FUSABLE: dict[str, tuple[dict[str, float], activations.Formula, str]] = {
    "activation_elu": ({"alpha": 0.7}, activations.elu, "1.0"),
    "activation_celu": ({"alpha": 0.7}, activations.celu, "3.0"),
    "activation_gelu": ({}, activations.gelu, "5.1"),
    "activation_hard_sigmoid": ({"alpha": 0.3, "beta": 0.4}, activations.hard_sigmoid, "1.0"),
    "activation_identity": ({}, activations.identity, "1.0"),
    "activation_leaky_relu": ({"alpha": 0.3}, activations.leaky_relu, "1.0"),
    "activation_linear": ({"alpha": 0.3, "beta": 0.4}, activations.linear, "1.0"),
    "activation_parametric_softplus": ({"alpha": 1.5, "beta": 0.4}, activations.parametric_softplus, "1.0"),
    "activation_relu": ({}, activations.relu, "1.0"),
    "activation_scaled_elu": ({"alpha": 1.5, "gamma": 0.4}, activations.scaled_elu, "1.0"),
    "activation_scaled_tanh": ({"alpha": 1.5, "beta": 0.4}, activations.scaled_tanh, "1.0"),
    "activation_shrink": ({"bias": 0.25, "threshold": 0.75}, activations.shrink, "2.0"),
    "activation_sigmoid": ({}, activations.sigmoid, "1.0"),
    "activation_softplus": ({"steepness": 1.5}, activations.softplus, "1.0"),
    "activation_softsign": ({}, activations.softsign, "1.0"),
    "activation_tanh": ({}, activations.tanh, "1.0"),
    "activation_thresholded_relu": ({"alpha": 0.75}, activations.thresholded_relu, "1.0"),
}
SUMS = (-3, -1, -0.5, 0.25, 1, 2.5)


def add1(sums: np.ndarray, **keywords: Any) -> dict[str, Any]:
    return {"operator": "add1", "inputs": [sums - 1, np.ones_like(sums)], **keywords}


def gemm(sums: np.ndarray, **keywords: Any) -> dict[str, Any]:
    return {"operator": "gemm", "inputs": [sums - 1, np.ones([1, 1], sums.dtype), np.ones_like(sums)], **keywords}


HOSTS = {"add1": add1, "gemm": gemm}


def assert_near(got: np.ndarray, expected: np.ndarray, device: str) -> None:
    assert_same(got, expected, ActivationTests.ulp.get(device, 0), ActivationTests.ulp_floor.get(device, 0.0))


def test_the_table_is_complete() -> None:
    for host in HOSTS:
        fusable = {name for name, each in REGISTRY.items() if REGISTRY[host].dml in each.support().fusable_into}
        assert fusable - {"clip", "activation_softmax", "activation_softmax1"} == set(FUSABLE)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", FUSABLE)
@pytest.mark.parametrize("host", HOSTS)
def test_fused(host: str, name: str, dtype: str, device: str) -> None:
    attributes, formula, _ = FUSABLE[name]
    sums = [[number] for number in SUMS]
    expected = [exact.round_all([formula(Fraction(number), **attributes)], dtype) for number in SUMS]
    got = run(**HOSTS[host](array(sums, dtype), device=device, fused_activation={"op": name, **attributes}))
    assert_near(got, array(expected, dtype), device)


@pytest.mark.parametrize("name", FUSABLE)
@pytest.mark.parametrize("host", HOSTS)
def test_from_their_levels(host: str, name: str) -> None:
    attributes, _, since = FUSABLE[name]
    for level in (each for each in dg.FeatureLevel if each >= REGISTRY[host].support().introduced):
        asked = HOSTS[host](np.ones([1, 1, 2, 1], "float32"), target=str(level))
        asked["fused_activation"] = {"op": name, **attributes}
        if level >= dg.FeatureLevel.parse(since):
            build(**asked)
        else:
            error = refused(**asked)
            assert (error.field, error.got) == ("fused_activation", name)
            assert f"at feature level {level}; legal from {since}" in str(error)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("activation", ["activation_softmax", {"op": "activation_softmax1", "axes": [1]}])
def test_softmax_in_gemm(activation: Any, dtype: str, device: str) -> None:
    rows = [[1, 2, 3], [-1, 0.5, 0.25]]
    expected = [exact.round_all(exact.softmax(list(map(Fraction, row))), dtype) for row in rows]
    got = run("gemm", [array(rows, dtype), np.eye(3, dtype=dtype)], device=device, fused_activation=activation)
    assert_near(got, array(expected, dtype), device)


@pytest.mark.parametrize(
    "activation",
    [
        {"op": "activation_swish", "sigmoid_input_scale": 1},
        {"op": "activation_hard_swish", "alpha": 1, "beta": 0},
        {"op": "activation_hardmax1", "axes": [1]},
        {"op": "activation_parameterized_relu"},
        {"op": "exp"},
    ],
)
@pytest.mark.parametrize("host", HOSTS)
def test_other_operators_do_not_fuse(host: str, activation: dict[str, Any]) -> None:
    error = refused(**HOSTS[host](np.ones([2, 1], "float32"), fused_activation=activation))
    assert (error.field, error.got) == ("fused_activation", activation["op"])
    assert set(FUSABLE) <= set((error.allowed or "").split(", "))


@pytest.mark.parametrize("host", HOSTS)
def test_an_activation_has_its_own_limits(host: str) -> None:
    gentle = {"op": "activation_softplus", "steepness": 0.5}
    sums = np.ones([2, 1], "float32")
    build(**HOSTS[host](sums, fused_activation=gentle, target="6.4"))
    error = refused(**HOSTS[host](sums, fused_activation=gentle, target="6.3"))
    assert (error.field, error.got, error.allowed) == ("fused_activation.steepness", 0.5, "1 or more")


def test_softmax_of_more_than_a_matrix_does_not_fuse() -> None:
    a = np.ones([2, 1, 2, 2], "float32")
    error = refused("gemm", [a, a], fused_activation="activation_softmax")
    assert error.field == "fused_activation.input.sizes"
