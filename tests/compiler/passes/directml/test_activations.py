"""An activation after a heavy operator becomes its FusedActivation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from operators.test_fused_activation import FUSABLE as TABLE
from support.operators.harness import assert_same
from support.passes.fusing import Array, applied, dispatches, fused, of_one, operator, operators, refusal, results

import dmlgraph as dg
from dmlgraph.compiler.passes.directml.activations import is_fusable
from dmlgraph.devices.names import DeviceName
from dmlgraph.operators import REGISTRY

Build = Callable[[dg.Graph, dg.Value], dg.Value]
RULES = ("fuse_activation", "fuse_line")
RANDOM = np.random.default_rng(5)
X = RANDOM.standard_normal((1, 2, 4, 4)).astype(np.float32)


def constant(graph: dg.Graph, x: dg.Value, name: str, sizes: list[int]) -> dg.Value:
    values = 0.25 + np.arange(np.prod(sizes)).reshape(sizes) % 5 / 4
    return graph.constant(name, values.astype(x.desc.dtype.numpy))


def convolution(g: dg.Graph, x: dg.Value, **fields: Any) -> Any:
    return dg.convolution(x, constant(g, x, "filter", [2, 2, 3, 3]), **fields)


def gemm(g: dg.Graph, x: dg.Value) -> Any:
    return dg.gemm(x, constant(g, x, "w", [1, 2, 4, 4]))


def add(g: dg.Graph, x: dg.Value) -> Any:
    return x + constant(g, x, "b", [1, 2, 4, 4])


def parameters(g: dg.Graph, x: dg.Value, names: str) -> list[dg.Value]:
    return [constant(g, x, name, [1, 2, 1, 1]) for name in names]


def batch_normalization(g: dg.Graph, x: dg.Value) -> Any:
    return dg.batch_normalization(x, *parameters(g, x, "mvsb"), spatial=True, epsilon=1e-3)


def training(g: dg.Graph, x: dg.Value) -> Any:
    return dg.batch_normalization_training(x, *parameters(g, x, "sb"), epsilon=1e-3)[0]


def mean_variance(g: dg.Graph, x: dg.Value) -> Any:
    return dg.mean_variance_normalization(
        x, *parameters(g, x, "sb"), cross_channel=False, normalize_variance=True, epsilon=1e-3
    )


def mean_variance1(g: dg.Graph, x: dg.Value) -> Any:
    return dg.mean_variance_normalization1(
        x, *parameters(g, x, "sb"), axes=[2, 3], normalize_variance=True, epsilon=1e-3
    )


HOSTS: dict[str, Callable[..., Any]] = {
    "convolution": convolution,
    "gemm": gemm,
    "add1": add,
    "batch_normalization": batch_normalization,
    "batch_normalization_training": training,
    "mean_variance_normalization": mean_variance,
    "mean_variance_normalization1": mean_variance1,
}


def apply(name: str, value: Any) -> Any:
    attributes = TABLE[name][0]
    return getattr(dg, name)(value, **attributes)


def assert_near(graph: dg.Graph, x: Array, device: DeviceName, *rules: str, slope: float = 2) -> None:
    """1/2 ULP of the argument, which is at most 64 here, and 1 ULP of the result; zeros are equal."""
    for got, expected in results(graph, {"x": x}, *rules, device=device):
        exact = device != "reference" and x.dtype == np.float32
        unit = 0.0 if exact else slope * float(np.spacing(x.dtype.type(32)))
        assert (got == expected).all() or np.abs(got.astype(float) - expected.astype(float)).max() <= unit


def test_the_hosts_are_all() -> None:
    hosts = {name for name, each in REGISTRY.items() if "fused_activation" in each.fields}
    assert set(HOSTS) == hosts - {"mean_variance_normalization2"}
    assert {name for name, each in REGISTRY.items() if is_fusable(each)} >= set(TABLE) | {"clip"}


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("name", TABLE)
@pytest.mark.parametrize("host", HOSTS)
def test_fused(host: str, name: str, dtype: str, device: DeviceName) -> None:
    x = X.astype(dtype)
    graph = of_one(lambda g, x: apply(name, HOSTS[host](g, x)), x)
    found = operator(fused(graph, "fuse_activation"))
    assert (found.name, found.fused_activation.name) == (host, name)
    for field, value in TABLE[name][0].items():
        assert found.fused_activation.attributes[field] == np.float32(value)
    assert_near(graph, x, device, "fuse_activation")


# Operators that are not activations by name.
OTHERS: dict[str, tuple[Build, str, dict[str, float]]] = {
    "threshold at 0": (lambda g, x: dg.threshold(x, min=0), "activation_relu", {}),
    "tanh": (lambda g, x: dg.tanh(x), "activation_tanh", {}),
    "clip": (lambda g, x: dg.clip(x, min=0.5, max=6), "clip", {"min": 0.5, "max": 6}),
    "a clipped line": (
        lambda g, x: dg.clip(x, min=0, max=1, scale_bias={"scale": 0.25, "bias": 0.5}),
        "activation_hard_sigmoid",
        {"alpha": 0.25, "beta": 0.5},
    ),
    "a product": (lambda g, x: x * 3, "activation_linear", {"alpha": 3, "beta": -0.0}),
    "a sum": (lambda g, x: x + 3, "activation_linear", {"alpha": 1, "beta": 3}),
    "a difference": (lambda g, x: 1 - x, "activation_linear", {"alpha": -1, "beta": 1}),
    "its opposite": (lambda g, x: dg.negate(x), "activation_linear", {"alpha": -1, "beta": -0.0}),
    "a line": (
        lambda g, x: dg.identity(x, scale_bias={"scale": 3, "bias": 2}),
        "activation_linear",
        {"alpha": 3, "beta": 2},
    ),
}


@pytest.mark.parametrize("host", ["convolution", "gemm"])
@pytest.mark.parametrize("name", OTHERS)
def test_others(name: str, host: str, device: DeviceName) -> None:
    build, becomes, attributes = OTHERS[name]
    graph = of_one(lambda g, x: build(g, HOSTS[host](g, x)), X)
    found = operator(fused(graph, *RULES))
    activation = found.fused_activation
    assert (found.name, activation.name) == (host, becomes)
    assert {field: activation.attributes[field] for field in attributes} == attributes
    assert_near(graph, X, device, *RULES, slope=6)


def test_a_sum_and_a_number(device: DeviceName) -> None:
    """(a + b) + 1 → ADD1 with LINEAR(1, 1)."""
    graph = of_one(lambda g, x: add(g, x) + 1, X)
    found = operator(fused(graph, "fuse_line"))
    assert (found.name, found.fused_activation.attributes) == ("add1", {"alpha": 1, "beta": 1})
    for got, expected in results(graph, {"x": X}, "fuse_line", device=device):
        assert_same(got, expected)


def test_a_fused_relu_keeps_nan_and_signs_zero() -> None:
    """Measured: a separate RELU gives 0.0 for both."""
    x = np.array([[[[np.nan, -1.0, 2.0]]]], np.float32)
    graph = of_one(lambda g, x: dg.activation_relu(dg.add(x, x)), x)
    ((got, expected),) = results(graph, {"x": x}, "fuse_activation")
    assert_same(expected, np.array([[[[0.0, 0.0, 4.0]]]], np.float32))
    assert_same(np.abs(got[..., 1:]), expected[..., 1:])


@pytest.mark.usefixtures("directml_path")
def test_a_fused_relu_on_directml() -> None:
    x = np.array([[[[np.nan, -1.0, 2.0]]]], np.float32)
    graph = of_one(lambda g, x: dg.activation_relu(dg.add(x, x)), x)
    ((got, expected),) = results(graph, {"x": x}, "fuse_activation", device="directml:software")
    assert_same(expected, np.array([[[[0.0, 0.0, 4.0]]]], np.float32))
    assert_same(got, np.array([[[[np.nan, -0.0, 4.0]]]], np.float32))


def test_the_padding_of_an_output_is_activated_either_way(device: DeviceName) -> None:
    def build(g: dg.Graph, x: dg.Value) -> dg.Value:
        return dg.activation_sigmoid(convolution(g, x, output_padding=[1, 1]))

    graph = of_one(build, X)
    assert operators(fused(graph, "fuse_activation")) == ["convolution"]
    ((got, expected),) = results(graph, {"x": X}, "fuse_activation", device=device)
    assert got[0, 0, -1, -1] == expected[0, 0, -1, -1] == 0.5
    assert_near(graph, X, device, "fuse_activation")


# Where it must not apply.


def read_twice(g: dg.Graph, x: dg.Value) -> dg.Value:
    value = convolution(g, x)
    return dg.max(dg.activation_relu(value), value)


def an_output(g: dg.Graph, x: dg.Value) -> dg.Value:
    value = convolution(g, x)
    g.output("z", value)
    return dg.activation_relu(value)


def its_mean_is_read(g: dg.Graph, x: dg.Value) -> dg.Value:
    output, mean, _ = dg.batch_normalization_training(x, *parameters(g, x, "sb"), epsilon=1e-3)
    g.output("mean", mean)
    return dg.activation_relu(output)


def activated_already(g: dg.Graph, x: dg.Value) -> dg.Value:
    return dg.activation_sigmoid(convolution(g, x, fused_activation="activation_relu"))


def swished(g: dg.Graph, x: dg.Value) -> dg.Value:
    return dg.clip(add(g, x), min=0, max=6)


REFUSED: dict[str, tuple[Build, str]] = {
    "read twice": (read_twice, "'convolution' has other readers, and would be computed twice"),
    "an output": (an_output, "would be computed twice"),
    "its mean is read": (its_mean_is_read, "other outputs of"),
    "activated already": (activated_already, "has an activation already"),
    "not one of the host's": (swished, "clip cannot be fused into add1"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    build, why = REFUSED[name]
    assert why in refusal(fused(of_one(build, X), *RULES), "fuse_activation")


def test_from_their_levels() -> None:
    clipped = of_one(lambda g, x: dg.clip(gemm(g, x), min=0, max=6), X, target="5.2")
    assert "legal from 6.0" in refusal(fused(clipped, *RULES), "fuse_activation")
    sum_of_1 = of_one(lambda g, x: dg.activation_relu(dg.add(x, x)), X, target="1.0")
    assert "appears at 2.0" in refusal(fused(sum_of_1, *RULES), "fuse_activation")


def test_a_broadcast_result_stays() -> None:
    """The number has more elements than the product, which is read through zero strides."""

    def build(g: dg.Graph, x: dg.Value) -> dg.Value:
        return dg.add(x, x) * g.fill_value_constant(sizes=[3, 2, 4, 4], dtype="float32", value=3)

    assert "not read as it was written" in refusal(fused(of_one(build, X), *RULES), "fuse_line")


def test_float16_tanh_is_another_function() -> None:
    """DirectML computes ACTIVATION_TANH in float16, TANH in float32."""
    result = fused(of_one(lambda g, x: dg.tanh(gemm(g, x)), X.astype(np.float16)), *RULES)
    assert operators(result) == ["gemm", "tanh"]


def test_integers_are_no_hosts() -> None:
    graph = of_one(lambda g, x: dg.activation_relu(dg.add(x, x)), X.astype(np.int32))
    assert applied(fused(graph, *RULES)) == []


def test_strides_of_the_output_stay(device: DeviceName) -> None:
    graph = dg.Graph("test")
    x = graph.input("x", sizes=X.shape, dtype="float32")
    graph.output("y", dg.activation_sigmoid(dg.add(x, x), output={"strides": [64, 32, 8, 1]}))
    assert operators(fused(graph, *RULES)) == ["add1"]
    assert_near(graph, X, device, *RULES)


# Dispatches.


@pytest.mark.usefixtures("directml_path")
def test_dispatches() -> None:
    for name, after in (("activation_relu", 1), ("activation_leaky_relu", 1), ("activation_sigmoid", 2)):
        for host in (convolution, add, batch_normalization):
            graph = of_one(lambda g, x, host=host, name=name: getattr(dg, name)(host(g, x)), X)  # type: ignore[misc]
            assert dispatches(graph, {"x": X}, fuse=["fuse_activation"]) == after
            assert dispatches(graph, {"x": X}, fuse=False) == 2


def test_numbers_beyond_float16_are_not_fused() -> None:
    """Activations have numbers in the type of their tensor: 1 / 2^-23 would be infinite, and 0 would become NaN."""
    x = np.array([[[[0, -0.0], [1e-3, -6e-8]]]], np.float16)
    small, large = np.array(2.0**-23, np.float16), np.array(60000, np.float16)
    changes: tuple[Callable[[dg.Value], dg.Value], ...] = (lambda y: y / small, lambda y: (y + large) + large)
    for change in changes:
        graph = of_one(lambda g, x, change=change: change(dg.add(x, x)), x)  # type: ignore[misc]
        for got, expected in results(graph, {"x": x}, *RULES, "number_to_scale_bias", device="directml:software"):
            assert_same(got, expected)
    divided = of_one(lambda g, x: dg.add(x, x) / small, x)
    assert "beyond float16" in refusal(fused(divided, *RULES), "fuse_line")
