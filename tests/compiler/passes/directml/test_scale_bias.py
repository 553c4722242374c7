"""Multiplications and additions with numbers go into the ScaleBias of their readers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.operators.harness import assert_same
from support.passes.fusing import (
    applied,
    assert_same_bits,
    dispatches,
    fused,
    of_one,
    operator,
    operators,
    refusal,
    results,
    samples,
)

import dmlgraph as dg
from dmlgraph.compiler.passes.directml.scale_bias import MAX_READERS, is_scaled
from dmlgraph.devices.names import DeviceName
from dmlgraph.operators import REGISTRY
from dmlgraph.operators.declaration.fields import ScaleBias

Build = Callable[[dg.Graph, dg.Value], dg.Value]
RULES = ("absorb_scale_bias", "number_to_scale_bias")


def fill(graph: dg.Graph, x: dg.Value, value: float) -> dg.Value:
    return graph.fill_value_constant(sizes=x.desc.sizes, dtype=x.desc.dtype, value=value)


def constant(graph: dg.Graph, x: dg.Value, value: float) -> dg.Value:
    return graph.constant(f"k{abs(value)}".replace(".", "_"), np.full([1, 1, 1, 1], value, x.desc.dtype.numpy))


NUMBERS = {"a full-size fill": fill, "a number": lambda g, x, value: value, "a constant": constant}

# The graph, the operator it becomes, its scale and bias.
ABSORBED: dict[str, tuple[Build, str, float, float]] = {
    "relu": (lambda g, x: dg.activation_relu(x * 2 + 0.5), "threshold", 2, 0.5),
    "relu of a product": (lambda g, x: dg.activation_relu(x * 3), "threshold", 3, -0.0),
    "tanh": (lambda g, x: dg.activation_tanh((x + 1) * 0.5), "tanh", 0.5, 0.5),
    "clip": (lambda g, x: dg.clip(x * 3 + 0.75, min=0, max=6), "clip", 3, 0.75),
    "a scale and bias before": (
        lambda g, x: dg.abs(x * 4, scale_bias={"scale": 3, "bias": 1}),
        "abs",
        12,
        1,
    ),
    "a product and a sum": (lambda g, x: x * 1.25 + 0.75, "identity", 1.25, 0.75),
    "a difference": (lambda g, x: 0.75 - x * 1.5, "identity", -1.5, 0.75),
    "a quotient": (lambda g, x: (x - 3) / 4, "identity", 0.25, -0.75),
    "a negated product": (lambda g, x: dg.negate(x * 3), "identity", -3, -0.0),
    "linear": (lambda g, x: dg.activation_linear(x * 2, alpha=4, beta=1), "identity", 8, 1),
    "identity": (lambda g, x: dg.activation_identity(x * 2), "identity", 2, -0.0),
}


@pytest.mark.parametrize("name", ABSORBED)
def test_absorbed(name: str, device: DeviceName) -> None:
    build, becomes, scale, bias = ABSORBED[name]
    graph = of_one(build, samples("float32"))
    found = operator(fused(graph, *RULES))
    assert (found.name, str(found.scale_bias)) == (becomes, str(ScaleBias(scale=scale, bias=bias)))
    for got, expected in results(graph, {"x": samples("float32")}, *RULES, device=device):
        assert_same(np.abs(got), np.abs(expected))  # the device chooses which of two zeros max returns


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_of_every_kind(number: str, dtype: str) -> None:
    number_of = NUMBERS[number]
    graph = of_one(lambda g, x: dg.exp(x * number_of(g, x, 2) + number_of(g, x, 0.5)), samples(dtype))
    found = operator(fused(graph, *RULES))
    assert (found.name, found.scale_bias) == ("exp", ScaleBias(scale=2, bias=0.5))


@pytest.mark.parametrize("name", [name for name, each in REGISTRY.items() if is_scaled(each)])
def test_every_operator_with_a_scale_and_bias_takes_them(name: str, device: DeviceName) -> None:
    attributes: dict[str, Any] = {"clip": {"min": 0, "max": 6}, "threshold": {"min": 1}, "clip1": {"min": 0, "max": 6}}
    attributes["constant_pow"] = {"exponent": 2}
    function = getattr(dg, name)
    x = samples("float32")
    graph = of_one(lambda g, x: function(x * 1.25 + 0.75, **attributes.get(name, {})), x)
    found = operator(fused(graph, *RULES))
    assert (found.name, found.scale_bias) == (name, ScaleBias(scale=1.25, bias=0.75))
    assert_same_bits(graph, {"x": x}, *RULES, device=device)


def test_pow_would_scale_its_exponent() -> None:
    result = fused(of_one(lambda g, x: dg.pow(x * 2 + 1, x), samples("float32")), *RULES)
    assert operators(result) == ["identity", "pow"]


@pytest.mark.parametrize(
    "build", [lambda g, x: x * 1.3, lambda g, x: x + 0.7, lambda g, x: 0.7 - x, lambda g, x: x / 8]
)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_number_alone_is_exact(build: Build, dtype: str, device: DeviceName) -> None:
    x = samples(dtype)
    graph = of_one(build, x)
    assert operator(fused(graph, "number_to_scale_bias")).name == "identity"
    assert_same_bits(graph, {"x": x}, "number_to_scale_bias", device=device)


def test_zeros_keep_their_sign(device: DeviceName) -> None:
    x = np.array([[[[0.0, -0.0]]]], np.float32)
    for build, signs in ((lambda g, x: x * 3, [False, True]), (lambda g, x: x * 3 + 0.0, [False, False])):
        ((got, _),) = results(of_one(build, x), {"x": x}, *RULES, device=device)
        assert np.signbit(got).ravel().tolist() == signs


def test_float16_saves_the_rounding_of_the_product(device: DeviceName) -> None:
    x = samples("float16")
    graph = of_one(lambda g, x: dg.sqrt(x * 1.3 + 0.7), x)
    assert operators(fused(graph, *RULES)) == ["sqrt"]
    line = of_one(lambda g, x: x * 1.3 + 0.7, x)
    for got, expected in results(line, {"x": x}, *RULES, device=device):
        finite = np.isfinite(x)
        product = np.spacing(np.abs(x[finite] * np.float16(1.3))).astype(np.float64)
        result = np.spacing(np.abs(expected[finite])).astype(np.float64)
        distance = np.abs(got[finite].astype(np.float64) - expected[finite].astype(np.float64))
        assert (distance <= product / 2 + result).all()
        assert distance.max() > 0  # it does differ


def test_float16_no_longer_overflows_in_between(device: DeviceName) -> None:
    x = np.array([[[[60000.0]]]], np.float16)
    ((got, expected),) = results(of_one(lambda g, x: x * 2 - 60000, x), {"x": x}, *RULES, device=device)
    assert np.isinf(expected).all()
    assert abs(float(got[0, 0, 0, 0]) - 60000) <= 32


def test_two_products_are_within_2_ulp(device: DeviceName) -> None:
    x = samples("float32")
    graph = of_one(lambda g, x: dg.exp(x * 0.7 * 0.3), x)
    assert operators(fused(graph, *RULES)) == ["exp"]
    product = of_one(lambda g, x: x * 0.7 * 0.3, x)
    for got, expected in results(product, {"x": x}, *RULES, device=device):
        assert_same(got, expected, ulp=2)


def test_no_overflow_between_a_sum_and_its_half(device: DeviceName) -> None:
    """The edge: an intermediate value is beyond float32, but the composed map is not."""
    greatest = float(np.finfo(np.float32).max)
    x = np.full([1, 1, 1, 1], greatest, np.float32)
    graph = of_one(lambda g, x: (x + greatest) * 0.5, x)
    ((got, expected),) = results(graph, {"x": x}, *RULES, device=device)
    assert (float(got[0, 0, 0, 0]), float(expected[0, 0, 0, 0])) == (greatest, np.inf)


def test_sums_are_not_associative() -> None:
    graph = of_one(lambda g, x: (x + 1e9) - 1e9, samples("float32"))
    assert operators(fused(graph, *RULES)) == ["identity", "identity"]
    assert "not associative" in refusal(fused(graph, "absorb_scale_bias"), "absorb_scale_bias")
    assert "reassociate" not in applied(fused(graph))


def test_reassociate_says_so(device: DeviceName) -> None:
    x = np.array([[[[1.0]]]], np.float32)
    graph = of_one(lambda g, x: dg.exp((x + 1e9) - 1e9), x)
    assert operators(fused(graph, "reassociate")) == ["exp"]
    ((got, expected),) = results(graph, {"x": x}, "reassociate", device=device)
    assert (round(float(got[0, 0, 0, 0]), 3), float(expected[0, 0, 0, 0])) == (2.718, 1.0)


# Readers.


def test_a_line_is_taken_into_all_its_readers(device: DeviceName) -> None:
    x = samples("float32")

    def build(_: dg.Graph, x: dg.Value) -> dg.Value:
        line = x * 2 + 1
        return dg.max(dg.sin(line), dg.abs(line))

    graph = of_one(build, x)
    assert sorted(operators(fused(graph, *RULES))) == ["abs", "max", "sin"]
    assert_same_bits(graph, {"x": x}, *RULES, device=device)


def test_a_line_that_would_stay_is_left() -> None:
    def with_another_reader(_: dg.Graph, x: dg.Value) -> dg.Value:
        line = x * 2
        return dg.max(dg.sin(line), line)

    def with_an_output(g: dg.Graph, x: dg.Value) -> dg.Value:
        line = x * 2
        g.output("line", line)
        return dg.sin(line)

    def with_a_reader_that_rounds(_: dg.Graph, x: dg.Value) -> dg.Value:
        line = x * 2 + 3
        return dg.max(dg.sin(line), line + 5)

    def with_many_readers(_: dg.Graph, x: dg.Value) -> dg.Value:
        line, total = x * 2, x
        for scale in range(MAX_READERS + 1):
            total = dg.max(total, dg.abs(line, scale_bias={"scale": 1, "bias": scale}))
        return total

    for build, why in (
        (with_another_reader, "is also read by 'max'"),
        (with_an_output, "is also an output"),
        (with_a_reader_that_rounds, "would stay for"),
        (with_many_readers, f"more than {MAX_READERS} readers"),
    ):
        result = fused(of_one(build, samples("float32")), *RULES)
        declined = [entry.why for entry in result.record if not entry.applied]
        assert any(why in each for each in declined), (why, declined)


@pytest.mark.parametrize("dtype", ["int64", "int32"])
def test_other_types_are_left(dtype: str) -> None:
    x = np.ones([1, 1, 1, 3], dtype)
    graph = of_one(lambda g, x: dg.abs(x * 2), x)
    assert applied(fused(graph, *RULES)) == []


def test_a_number_that_broadcasts_its_tensor(device: DeviceName) -> None:
    """The fill has more elements than x: the map is read through zero strides, as the product was."""
    x = np.array([[[[1.0], [2.0]]]], np.float32)

    def build(g: dg.Graph, x: dg.Value) -> dg.Value:
        full = g.fill_value_constant(sizes=[1, 1, 2, 3], dtype="float32", value=2)
        return dg.abs(x * full + 1)

    graph = of_one(build, x)
    assert operators(fused(graph, *RULES)) == ["abs"]
    ((got, _),) = results(graph, {"x": x}, *RULES, device=device)
    assert got.tolist() == [[[[3.0] * 3, [5.0] * 3]]]
    assert_same_bits(graph, {"x": x}, *RULES, device=device)


def test_strided_inputs_and_outputs(device: DeviceName) -> None:
    graph = dg.Graph("test")
    x = graph.input("x", sizes=[1, 1, 2, 3], dtype="float32", strides=[6, 6, 1, 2])
    graph.output("y", dg.abs(x * 2 - 3, output={"strides": [8, 8, 4, 1]}))
    data = np.arange(6, dtype=np.float32).reshape(1, 1, 2, 3)
    assert operators(fused(graph, *RULES)) == ["abs"]
    assert_same_bits(graph, {"x": data}, *RULES, device=device)


# Dispatches.


@pytest.mark.usefixtures("directml_path")
def test_dispatches() -> None:
    x = samples("float32")
    for build in (
        lambda g, x: dg.activation_relu(x * fill(g, x, 2) + fill(g, x, 0.5)),
        lambda g, x: dg.activation_relu(x * 2 + 0.5),
        lambda g, x: dg.activation_tanh((x + 1) * 0.5),
    ):
        assert dispatches(of_one(build, x), {"x": x}) == 1
        assert dispatches(of_one(build, x), {"x": x}, fuse=False) == 5
