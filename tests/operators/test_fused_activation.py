"""FusedActivation: every activation that DirectML fuses, in every operator that takes one."""

from __future__ import annotations

import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from support.operators import activations, exact
from support.operators.activations import ActivationTests
from support.operators.checks import tolerance
from support.operators.harness import FLOATS, Array, array, assert_same, build, refused, run, run_all
from support.problems import raises

import dmlgraph as dg
from dmlgraph.base.tensor import TensorDesc
from dmlgraph.devices.names import DeviceName
from dmlgraph.operators import REGISTRY
from dmlgraph.operators.declaration.fused import FusedActivation

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


# Each host with inputs {1, C, 1, 1} so that it adds 1 to C numbers, and activates the sums, some of them twice.


def add1(sums: Array) -> dict[str, Any]:
    return {"inputs": [sums - 1, np.ones_like(sums)]}


def gemm(sums: Array) -> dict[str, Any]:
    return {"inputs": [sums - 1, np.ones([1, 1], sums.dtype), np.ones_like(sums)]}


def convolution(sums: Array) -> dict[str, Any]:
    channels = sums.shape[1]
    one_of_each = np.ones([channels, 1, 1, 1], sums.dtype)
    return {"inputs": [sums - 1, one_of_each, np.ones_like(sums)], "group_count": channels}


def batch_normalization(sums: Array) -> dict[str, Any]:
    one = np.ones_like(sums)
    return {"inputs": [sums - 1, 0 * one, one, one, one], "spatial": True, "epsilon": 0}


def batch_normalization_training(sums: Array) -> dict[str, Any]:
    """Two images, 1 and −1, so that the mean is 0 and the variance 1; 2 more is added to the second."""
    one = np.ones_like(sums)
    fused_add = np.concatenate([0 * one, 2 * one])
    return {"inputs": [np.concatenate([one, -one]), one, sums - 1, fused_add], "epsilon": 0}


def mean_variance(sums: Array, **fields: Any) -> dict[str, Any]:
    """Images of two pixels, 1 and −1, so that the mean is 0 and the variance 1; the second's bias is 2 greater."""
    one = np.ones_like(sums)
    pixels, bias = np.concatenate([one, -one], axis=3), np.concatenate([sums - 1, sums + 1], axis=3)
    return {"inputs": [pixels, one, bias], "epsilon": 0, **fields}


def mean_variance_normalization(sums: Array) -> dict[str, Any]:
    return mean_variance(sums, cross_channel=False, normalize_variance=True)


def mean_variance_normalization1(sums: Array) -> dict[str, Any]:
    return mean_variance(sums, axes=[2, 3], normalize_variance=True)


def mean_variance_normalization2(sums: Array) -> dict[str, Any]:
    return mean_variance(sums, axes=[2, 3], use_mean=True, use_variance=True)


HOSTS = {
    host.__name__: host
    for host in (
        add1,
        gemm,
        convolution,
        batch_normalization,
        batch_normalization_training,
        mean_variance_normalization,
        mean_variance_normalization1,
        mean_variance_normalization2,
    )
}
UNLISTED = "mean_variance_normalization2"  # the documentation does not say what fuses into it

ONES = np.ones([1, 2, 1, 1], "float32")


def hosted(host: str, sums: Array, activation: Any) -> dict[str, Any]:
    """The arguments of `run` and `build` for a host with an activation."""
    return {"operator": host, "fused_activation": activation, **HOSTS[host](sums)}


def assert_near(got: Array, expected: Array, device: DeviceName) -> None:
    assert_same(got, expected, *tolerance(device, ActivationTests.ulp, ActivationTests.ulp_floor))


def test_the_table_is_complete() -> None:
    hosts = {name for name, each in REGISTRY.items() if "fused_activation" in each.fields}
    assert hosts == set(HOSTS)
    for host in hosts - {UNLISTED}:
        fusable = {name for name, each in REGISTRY.items() if REGISTRY[host].dml in each.support().fusable_into}
        assert fusable - {"clip", "activation_softmax", "activation_softmax1"} == set(FUSABLE)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", FUSABLE)
@pytest.mark.parametrize("host", sorted(set(HOSTS) - {UNLISTED}))
def test_fused(host: str, name: str, dtype: str, device: DeviceName) -> None:
    check_fused(host, name, dtype, device)


class TestInWhatNoLibraryHas:
    operator = UNLISTED  # so that it runs on the reference only

    @pytest.mark.parametrize("dtype", FLOATS)
    @pytest.mark.parametrize("name", FUSABLE)
    def test_fused(self, name: str, dtype: str, device: DeviceName) -> None:
        check_fused(self.operator, name, dtype, device)


def check_fused(host: str, name: str, dtype: str, device: DeviceName) -> None:
    attributes, formula, _ = FUSABLE[name]
    sums = array(SUMS, dtype).reshape(1, -1, 1, 1)
    expected = array([exact.round_all([formula(Fraction(number), **attributes)], dtype)[0] for number in SUMS], dtype)
    got, *_ = run_all(**hosted(host, sums, {"op": name, **attributes}), device=device)
    assert_near(got, np.broadcast_to(expected.reshape(sums.shape), got.shape), device)


@pytest.mark.parametrize("name", FUSABLE)
@pytest.mark.parametrize("host", HOSTS)
def test_from_their_levels(host: str, name: str) -> None:
    attributes, _, since = FUSABLE[name]
    for level in (each for each in dg.FeatureLevel if each >= REGISTRY[host].support().introduced):
        asked = hosted(host, ONES, {"op": name, **attributes}) | {"target": str(level)}
        if level >= dg.FeatureLevel.parse(since):
            build(**asked)
        else:
            error = refused(**asked)
            assert (error.field, error.got) == ("fused_activation", name)
            assert f"at feature level {level}; legal from {since}" in str(error)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("activation", ["activation_softmax", {"op": "activation_softmax1", "axes": [1]}])
def test_softmax_in_gemm(activation: Any, dtype: str, device: DeviceName) -> None:
    rows: list[list[float]] = [[1, 2, 3], [-1, 0.5, 0.25]]
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
    error = refused(**hosted(host, ONES, activation))
    assert (error.field, error.got) == ("fused_activation", activation["op"])
    assert set(FUSABLE) <= set((error.allowed or "").split(", "))


@pytest.mark.parametrize("host", HOSTS)
def test_an_activation_has_its_own_limits(host: str) -> None:
    gentle = {"op": "activation_softplus", "steepness": 0.5}
    build(**hosted(host, ONES, gentle), target="6.4")
    error = refused(**hosted(host, ONES, gentle), target="6.3")
    assert (error.field, error.got, error.allowed) == ("fused_activation.steepness", 0.5, "1 or more")


def test_softmax_of_more_than_a_matrix_does_not_fuse() -> None:
    a = np.ones([2, 1, 2, 2], "float32")
    error = refused("gemm", [a, a], fused_activation="activation_softmax")
    assert error.field == "fused_activation.input.sizes"


def test_it_is_a_value() -> None:
    elu = REGISTRY["activation_elu"]
    first, second = FusedActivation.of(elu, {"alpha": 0.1}), FusedActivation.of(elu, {"alpha": np.float32(0.1)})
    assert first == second
    assert hash(first) == hash(second)
    assert first != FusedActivation.of(elu, {})
    assert pickle.loads(pickle.dumps(first)) == first
    assert repr(FusedActivation.of(elu, {"alpha": 0.5})) == "ActivationElu(alpha=0.5)"


def test_its_axes_are_those_of_its_host() -> None:
    activation = FusedActivation.of(REGISTRY["activation_softmax1"], {"axes": [-1]})
    output = TensorDesc(dtype="float16", sizes=[2, 3])
    assert activation.attributes == {"axes": (-1,)}
    assert activation.fitted(output).attributes == {"axes": (1,)}
    assert activation.on(output).first_output == output
    beyond = FusedActivation.of(REGISTRY["activation_softmax1"], {"axes": [2]})
    assert beyond.fitted(output) == beyond
    with raises(dg.OperatorError, "range", field="axes.0", got=2):
        beyond.on(output)
