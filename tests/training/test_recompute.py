"""Cheap values that the backward pass computes again: the same losses bit for bit, and less memory."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest
from support.problems import raises

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName

Array = np.ndarray[Any, Any]
ROWS, WIDTH, LAYERS = 48, 32, 6
X = np.random.default_rng(1).normal(size=(ROWS, WIDTH)).astype(np.float32)


class Weights:
    """Makes the parameters of a network."""

    def __init__(self, graph: dg.Graph) -> None:
        self.graph, self.made, self.random = graph, list[dg.Value](), np.random.default_rng(0)

    def __call__(self, name: str, *sizes: int) -> dg.Value:
        array = self.random.normal(size=sizes) / np.sqrt(sizes[0]) if len(sizes) > 1 else np.ones(sizes)
        self.made.append(self.graph.state(name, sizes=sizes, dtype="float32", initial=array.astype(np.float32)))
        return self.made[-1]


def blocks(w: Weights, x: dg.Value) -> dg.Value:
    """Residual blocks of a transformer, without the attention: x + gelu(norm(x) · up) · down."""
    for layer in range(LAYERS):
        lines = x.reshape(1, 1, ROWS, WIDTH)
        normal = dg.mean_variance_normalization1(lines, axes=[3], normalize_variance=True, epsilon=1e-5)
        scaled = normal.reshape(x.sizes) * w(f"{layer}/scale", WIDTH)
        x = x + dg.activation_gelu(scaled @ w(f"{layer}/up", WIDTH, 4 * WIDTH)) @ w(f"{layer}/down", 4 * WIDTH, WIDTH)
    return x


def element_wise(w: Weights, x: dg.Value) -> dg.Value:
    for layer in range(LAYERS):
        x = dg.activation_tanh(dg.sin(x) * w(f"{layer}/scale", WIDTH) + x)
    return x


def step(network: Callable[[Weights, dg.Value], dg.Value], recompute: Literal["cheap"] | None) -> dg.Graph:
    g = dg.Graph("step")
    weights = Weights(g)
    loss = dg.reduce(network(weights, g.input("x", sizes=X.shape, dtype="float32")), function="sum_square")
    g.output("loss", loss)
    g.minimize(loss, weights.made, dg.SGD(1e-4, momentum=0.9), recompute=recompute)
    return g


def losses(graph: dg.Graph, device: DeviceName, steps: int) -> tuple[list[int], Any]:
    exe = graph.compile(device)
    found = exe.run({"x": X}, steps=steps, collect=["loss"])["loss"].ravel()
    assert np.isfinite(found).all()
    assert found[-1] < found[0]
    return found.view(np.uint32).tolist(), exe.stats


def test_it_takes_less_memory_for_the_same_bits() -> None:
    kept, again = losses(step(blocks, None), "cpu", 12), losses(step(blocks, "cheap"), "cpu", 12)
    assert kept[0] == again[0]
    # A block must keep x and the result of `up`: 5 · WIDTH numbers a row.  Plain gradients keep 2 · WIDTH more for the
    # normalization, and 4 · WIDTH for gelu's slope.  What one block works with comes to them: gelu and two gradients.
    size = 4 * ROWS * WIDTH
    assert again[1]["arena_bytes"] <= (5 * LAYERS + 8) * size
    assert kept[1]["arena_bytes"] >= 11 * LAYERS * size


@pytest.mark.parametrize("device", ["reference", "directml:software"])
@pytest.mark.usefixtures("directml_path")
def test_other_devices_compute_the_same(device: DeviceName) -> None:
    kept, again = losses(step(element_wise, None), device, 3), losses(step(element_wise, "cheap"), device, 3)
    assert kept[0] == again[0]


def test_a_file_keeps_it(tmp_path: pathlib.Path) -> None:
    graph = step(blocks, "cheap")
    graph.save(tmp_path / "step.yaml")
    again = dg.load(tmp_path / "step.yaml")
    assert again.compile("cpu").stats["arena_bytes"] == graph.compile("cpu").stats["arena_bytes"]


def test_of_equal_cuts_the_one_with_the_least_work_is_taken() -> None:
    g = dg.Graph()
    w = g.state("w", sizes=[WIDTH], dtype="float32", initial=1)
    x = g.input("x", sizes=[WIDTH, WIDTH], dtype="float32")
    product = x @ x  # cannot be computed again
    root = dg.sqrt(dg.exp(product), name="root")  # is as large as the product: nothing is won
    (found,) = dg.gradient(dg.reduce(root * w, function="sum"), [w], recompute="cheap")
    g.output("d", found)
    assert not [node.name for node in g.nodes if node.name.endswith("again/root")]


def test_only_cheap_is_known() -> None:
    g = dg.Graph()
    w = g.state("w", sizes=[1], dtype="float32")
    with raises(dg.GraphError, "unknown-name", field="recompute", got="all", allowed="cheap"):
        dg.gradient(w * w, [w], recompute="all")  # type: ignore[arg-type]
