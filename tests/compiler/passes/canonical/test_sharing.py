"""Duplicate computations are removed."""

from __future__ import annotations

import numpy as np
import pytest
from support.passes.fusing import assert_same_bits, fused, operators

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName


def test_equal_nodes_become_one_and_their_readers_too(device: DeviceName) -> None:
    graph = dg.Graph("test")
    x = graph.input("x", sizes=[2, 3], dtype="float32")
    graph.output("y", dg.sqrt(dg.exp(x)) + dg.sqrt(dg.exp(x)))
    result = fused(graph, "share")
    assert operators(result) == ["exp", "sqrt", "add"]
    assert_same_bits(graph, {"x": np.ones((2, 3), np.float32)}, device=device)


def test_two_outputs_may_be_one_value() -> None:
    graph = dg.Graph("test")
    x = graph.input("x", sizes=[3], dtype="float32")
    graph.output("one", dg.exp(x))
    graph.output("other", dg.exp(x))
    assert operators(fused(graph, "share")) == ["exp"]
    assert_same_bits(graph, {"x": np.ones(3, np.float32)}, "share")


def test_every_output_of_a_node_is_shared() -> None:
    graph = dg.Graph("test")
    x = graph.input("x", sizes=[1, 1, 1, 4], dtype="float32")
    for name in ("one", "other"):
        values, indices = dg.top_k(x, axis=3, k=2)
        graph.output(f"{name}_values", values)
        graph.output(f"{name}_indices", indices)
    assert operators(fused(graph, "share")) == ["top_k"]
    assert_same_bits(graph, {"x": np.array([[[[3, 1, 4, 1]]]], np.float32)}, "share")


@pytest.mark.parametrize("bits", [(0.0, -0.0), (1.0, 2.0)])
def test_fills_of_other_bits_are_others(bits: tuple[float, float]) -> None:
    graph = dg.Graph("test")
    for value in bits:
        fill = graph.fill_value_constant(sizes=[2], dtype="float32", value=value)
        graph.output(f"y{len(graph.outputs)}", fill)
    assert len(operators(fused(graph, "share"))) == 2


def test_equal_constants_become_one_and_unequal_ones_do_not() -> None:
    graph = dg.Graph("test")
    x = graph.input("x", sizes=[100], dtype="float32")
    data = np.arange(100, dtype=np.float32)
    other = data.copy()
    other[99] = -1
    constants = [graph.constant(name, values) for name, values in (("a", data), ("b", data), ("c", other))]
    graph.output("y", x * constants[0] + x * constants[1] + x * constants[2])
    result = fused(graph, "share")
    assert sum(not hasattr(node, "operator") for node in result.graph.nodes) == 3
    assert operators(result).count("multiply") == 2
    assert_same_bits(graph, {"x": data}, "share")


def test_other_fields_make_other_nodes() -> None:
    graph = dg.Graph("test")
    x = graph.input("x", sizes=[3], dtype="float32")
    graph.output("y", dg.clip(x, min=0, max=1) + dg.clip(x, min=0, max=2))
    assert operators(fused(graph, "share")) == ["clip", "clip", "add"]


def test_the_order_of_operands_counts() -> None:
    graph = dg.Graph("test")
    a, b = (graph.input(name, sizes=[3], dtype="float32") for name in "ab")
    graph.output("y", (a - b) * (b - a))
    assert operators(fused(graph, "share")) == ["subtract", "subtract", "multiply"]
