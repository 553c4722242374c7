"""Biases and constant statistics after a convolution go into it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.passes.fusing import dispatches, fused, operator, operators, refusal, results

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.devices.names import DeviceName

RANDOM = np.random.default_rng(11)
X = RANDOM.standard_normal((2, 3, 6, 5)).astype(np.float32)
FILTER = RANDOM.standard_normal((4, 3, 3, 3)).astype(np.float32)
OUTPUT = (2, 4, 4, 3)
STATISTICS = {
    "mean": [0.5, -1.0, 0.0, 2.0],
    "variance": [1.0, 0.25, 4.0, 0.0],
    "scale": [1.0, -2.0, 0.5, 0.01],
    "bias": [0.0, 1.0, -1.0, 3.0],
}


def convolution(graph: dg.Graph, dtype: DataTypeName = "float32", **fields: Any) -> Any:
    x = graph.input("x", sizes=X.shape, dtype=dtype)
    return dg.convolution(x, graph.constant("filter", FILTER.astype(dtype)), **fields)


def graph_of(build: Callable[[dg.Graph, Any], Any], **fields: Any) -> dg.Graph:
    graph = dg.Graph("test")
    graph.output("y", build(graph, convolution(graph, **fields)))
    return graph


def fill(value: float, sizes: tuple[int, ...]) -> Callable[[dg.Graph], Any]:
    return lambda graph: graph.fill_value_constant(sizes=sizes, dtype="float32", value=value)


def channels(graph: dg.Graph) -> Any:
    return graph.constant("b", np.array([1, -2, 3, 0.5], np.float32).reshape(1, 4, 1, 1))


BIASES: dict[str, Callable[[dg.Graph], Any]] = {
    "a full-size fill": fill(0.5, OUTPUT),
    "a fill of one element": fill(0.5, (1, 1, 1, 1)),
    "one number a channel": channels,
    "an input": lambda graph: graph.input("b", sizes=[1, 4, 1, 1], dtype="float32"),
}


def inputs_of(graph: dg.Graph) -> dict[str, Any]:
    return {node.name: X if node.name == "x" else np.ones(node.desc.sizes, np.float32) for node in graph.inputs}


@pytest.mark.parametrize("name", BIASES)
@pytest.mark.parametrize("swap", [False, True])
def test_a_bias_goes_in(name: str, swap: bool, device: DeviceName) -> None:
    graph = graph_of(lambda g, y: BIASES[name](g) + y if swap else y + BIASES[name](g))
    made = operator(fused(graph, "convolution_bias"))
    assert made.name == "convolution"
    assert made.bias.sizes == (1, 4, 1, 1)
    ((got, expected),) = results(graph, inputs_of(graph), "convolution_bias", device=device)
    # 1/2 ULP of a sum of 27 products, which stay below 32 in total.
    np.testing.assert_allclose(got, expected, rtol=0, atol=32 * float(np.finfo(np.float32).eps))


def test_float16_is_rounded_once(device: DeviceName) -> None:
    graph = dg.Graph("test")
    x = graph.input("x", sizes=[1, 1, 1, 2], dtype="float16")
    filter_ = graph.constant("filter", [[[[1, 1]]]], dtype="float16")
    graph.output("y", dg.convolution(x, filter_) + graph.constant("b", [[[[-2048]]]], dtype="float16"))
    ((got, expected),) = results(graph, {"x": np.array([[[[2048, 1]]]], np.float16)}, "convolution_bias", device=device)
    assert expected.ravel() == [0]  # 2049 is not a float16
    assert got.ravel() == [1]


BIAS_STAYS: dict[str, tuple[Callable[[dg.Graph, Any], Any], dict[str, Any], str]] = {
    "it differs within a channel": (
        lambda g, y: y + g.constant("b", np.arange(3, dtype=np.float32).reshape(1, 1, 1, 3)), {}, "within a channel"),
    "it differs between batches": (
        lambda g, y: y + g.constant("b", np.arange(2, dtype=np.float32).reshape(2, 1, 1, 1)), {}, "within a channel"),
    "there is a bias": (lambda g, y: y + 1.0 + 2.0, {}, "has a bias already"),
    "there is an activation": (lambda g, y: y + 1.0, {"fused_activation": "activation_relu"}, "has an activation"),
    "it is read twice": (lambda g, y: (y + 1.0) * y, {}, "computed twice"),
    "the output is padded": (
        lambda g, y: y + 1.0, {"output_padding": [1, 0]}, "would not apply to the padding"),
}  # fmt: skip


@pytest.mark.parametrize("name", BIAS_STAYS)
def test_a_bias_stays(name: str) -> None:
    build, fields, why = BIAS_STAYS[name]
    result = fused(graph_of(build, **fields), "convolution_bias")
    assert why in " ".join(entry.why for entry in result.record if not entry.applied)


def normalized(graph: dg.Graph, y: Any, change: dict[str, Any] | None = None, **fields: Any) -> Any:
    statistics = STATISTICS | (change or {})
    constants = [graph.constant(name, np.array(statistics[name], np.float32)) for name in STATISTICS]
    return dg.batch_normalization(y, *constants, spatial=True, epsilon=1e-3, **fields)


@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("activation", [None, "activation_relu"])
def test_statistics_go_in(with_bias: bool, activation: str | None, device: DeviceName) -> None:
    graph = graph_of(
        lambda g, y: (
            normalized(g, y + channels(g) if with_bias else y, {"mean": [1, 2, 3, 4]}, fused_activation=activation)
            if not with_bias
            else normalized_with_bias(g, y, activation)
        )
    )
    assert operators(fused(graph)) == ["convolution"]
    ((got, expected),) = results(graph, {"x": X}, device=device)
    # The largest factor is 2 / √0.251 or 0.01 / √0.001, the products' magnitudes stay below 32 in total.
    np.testing.assert_allclose(got, expected, rtol=0, atol=4 * 32 * 2 * float(np.finfo(np.float32).eps))


def normalized_with_bias(graph: dg.Graph, y: Any, activation: str | None) -> Any:
    biased = y + graph.constant("b", np.array([1, -2, 3, 0.5], np.float32).reshape(1, 4, 1, 1))
    statistics = [graph.constant(name, np.array(values, np.float32)) for name, values in STATISTICS.items()]
    return dg.batch_normalization(biased, *statistics, spatial=True, epsilon=1e-3, fused_activation=activation)


def test_the_new_weights_by_hand() -> None:
    """One weight: y = (2x + 1 − 3) / √(4 + 0) · 6 + 5 = 6x − 1."""
    graph = dg.Graph("test")
    x = graph.input("x", sizes=[1, 1, 1, 1], dtype="float32")
    numbers = {
        name: graph.constant(name, [[[[value]]]], dtype="float32")
        for name, value in zip("wbmvst", (2, 1, 3, 4, 6, 5), strict=True)
    }
    y = dg.convolution(x, numbers["w"], numbers["b"])
    y = dg.batch_normalization(y, *(numbers[name] for name in "mvst"), spatial=True, epsilon=0.0)
    graph.output("y", y)
    result = fused(graph, "normalized_convolution")
    constants = [node.data.ravel().tolist() for node in result.graph.nodes if hasattr(node, "data")]
    assert constants == [[6.0], [-1.0]]


STATISTICS_STAY: dict[str, tuple[Callable[[dg.Graph, Any], Any], dict[str, Any], str]] = {
    "an infinite factor": (
        lambda g, y: normalized(g, y, {"variance": [1, 1, 1, -1e-3]}), {}, "would not be finite"),
    "an activation between": (normalized, {"fused_activation": "activation_relu"}, "has an activation"),
    "a second reader": (lambda g, y: normalized(g, y) * y, {}, "computed twice"),
    "padding": (normalized, {"output_padding": [1, 0]}, "pads its output"),
    "an input among the statistics": (
        lambda g, y: dg.batch_normalization(
            y, *(g.input(name, sizes=[4], dtype="float32") for name in STATISTICS), spatial=True, epsilon=0.0
        ), {}, "must be constants"),
}  # fmt: skip


@pytest.mark.parametrize("name", STATISTICS_STAY)
def test_statistics_stay(name: str) -> None:
    build, fields, why = STATISTICS_STAY[name]
    assert why in refusal(fused(graph_of(build, **fields), "normalized_convolution"), "normalized_convolution")


def dilated(sizes: tuple[int, ...], weights: np.ndarray[Any, Any], constant: bool = True, **fields: Any) -> dg.Graph:
    graph = dg.Graph("dilated")
    x = graph.input("x", sizes=sizes, dtype="float32")
    w = graph.constant("w", weights) if constant else graph.input("w", sizes=weights.shape, dtype="float32")
    graph.output("y", dg.convolution(x, w, **fields))
    return graph


@pytest.mark.parametrize("mode", ["cross_correlation", "convolution"])
def test_taps_that_meet_padding_alone_are_left_out(mode: str) -> None:
    """Of a row of four taps, 5 apart, the second one meets a row of three elements."""
    weights = np.arange(1, 5, dtype=np.float32).reshape(1, 1, 1, 4)
    fields: dict[str, Any] = {"dilations": (1, 5), "start_padding": (0, 5), "end_padding": (0, 10), "mode": mode}
    graph = dilated((1, 1, 2, 3), weights, **fields)
    result = fused(graph, "used_taps")
    new = operator(result)
    assert (new.filter.sizes, new.start_padding, new.end_padding) == ((1, 1, 1, 1), (0, 0), (0, 0))
    (constant,) = [node.data.item() for node in result.graph.nodes if hasattr(node, "data")]
    assert constant == (2 if mode == "cross_correlation" else 3)
    x = np.arange(6, dtype=np.float32).reshape(1, 1, 2, 3)
    for after, before in results(graph, {"x": x}, "used_taps"):
        np.testing.assert_array_equal(after, before)


TAPS_STAY: dict[str, tuple[dg.Graph, str]] = {
    "an infinite number": (
        dilated((1, 1, 3), np.array([[[1, 2, np.inf]]], np.float32), dilations=4, start_padding=4, end_padding=4),
        "of finite numbers"),
    "an input": (
        dilated((1, 1, 3), np.ones((1, 1, 3), np.float32), constant=False, dilations=4, start_padding=4, end_padding=4),
        "must be a constant"),
    "a stride beyond the picture": (
        dilated((1, 1, 4), np.ones((1, 1, 2), np.float32), dilations=5, strides=10, start_padding=3, end_padding=9),
        "within the input"),
}  # fmt: skip


@pytest.mark.parametrize("name", TAPS_STAY)
def test_taps_stay(name: str) -> None:
    graph, why = TAPS_STAY[name]
    assert why in refusal(fused(graph, "used_taps"), "used_taps")


@pytest.mark.usefixtures("directml_path")
def test_dispatches() -> None:
    graph = graph_of(lambda g, y: normalized(g, y + fill(0.5, OUTPUT)(g)))
    assert dispatches(graph, {"x": X}, fuse=False) == 4
    assert dispatches(graph, {"x": X}, fuse=["convolution_bias", "normalized_convolution"]) == 1
