"""Parts of graphs as graphs of their own."""

from __future__ import annotations

import numpy as np
import pytest
from support.problems import raises
from support.random_graphs import graph_of

import dmlgraph as dg
from dmlgraph.doctor.cut import cut, cut_node
from dmlgraph.formats.yaml import dumps
from dmlgraph.graph.nodes import OperatorNode


def chain() -> dg.Graph:
    """y = relu(xᵀ · 2 + w), and the greatest of z = y · y."""
    graph = dg.Graph("chain", dims={"N": 2, "M": 3, "K": 5})
    x = graph.input("x", sizes=["N", "M"], dtype="float32")
    w = graph.constant("w", np.array([[1, -20], [3, 4], [5, 6]], np.float32))
    graph.input("other", sizes=["K"], dtype="float32")
    turned = x.transpose(1, 0, name="turned")
    y = dg.activation_relu(dg.add(dg.multiply(turned, 2.0, name="twice"), w, name="sum"), name="y")
    z = dg.multiply(y, y, name="z")
    best = dg.top_k(z, axis=1, k=1, name="best")
    graph.output("y", y)
    graph.output("values", best.output_value)
    return graph


def test_a_cut_reads_and_writes_what_the_others_do() -> None:
    part = cut(chain(), ["sum", "y", "z"])
    assert [(node.name, node.desc.sizes) for node in part.inputs] == [("twice", (3, 2))]
    assert {name: value.reference for name, value in part.outputs.items()} == {"y": "y", "z": "z"}
    twice = np.array([[1, 2], [3, 4], [-50, 6]], np.float32)
    found = part.compile("reference").run({"twice": twice})
    np.testing.assert_array_equal(found["y"], [[2, 0], [6, 8], [0, 12]])
    np.testing.assert_array_equal(found["z"], [[4, 0], [36, 64], [0, 144]])


def test_a_node_reads_through_its_views_and_keeps_numbers() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    part, inputs = cut_node(chain(), "twice", {"x": x})
    assert list(inputs) == ["a"]
    assert inputs["a"] is x
    operators = {type(node.operator).__name__ for node in part.nodes if isinstance(node, OperatorNode)}
    assert operators == {"Transpose", "FillValueConstant", "Multiply"}
    np.testing.assert_array_equal(part.compile("reference").run(inputs)["twice"], x.T * 2)
    assert part.dims == {}


def test_a_value_that_is_read_twice_is_one_input() -> None:
    y = np.full((3, 2), 3, np.float32)
    part, inputs = cut_node(chain(), "z", {"y": y})
    assert list(inputs) == ["a"]
    np.testing.assert_array_equal(part.compile("reference").run(inputs)["z"], y * y)


def test_all_outputs_of_a_node_are_outputs() -> None:
    part, _ = cut_node(chain(), "best", {"z": np.zeros((3, 2), np.float32)})
    assert list(part.outputs) == ["best.output_value", "best.output_index"]


def test_what_cannot_be_cut_is_said() -> None:
    with raises(dg.GraphError, "unknown-node", node="w"):
        cut(chain(), ["w"])
    with raises(dg.GraphError, "missing-input", node="y", hint="'z' reads it"):
        cut_node(chain(), "z", {})


def test_states_are_inputs_of_a_cut() -> None:
    graph = dg.Graph()
    x = graph.input("x", sizes=[1, 2], dtype="float32")
    keys = graph.state("keys", sizes=[4, 2], dtype="float32", grows=0)
    graph.append(keys, dg.add(x, x, name="rows"))
    graph.output("y", dg.add(dg.cast(keys.length, dtype="float32", name="length"), 1, name="more"))
    part = cut(graph, ["rows", "length"])
    assert [node.name for node in part.inputs] == ["x", "keys.length"]
    assert list(part.outputs) == ["rows", "length"]


@pytest.mark.parametrize("seed", range(12))
def test_two_halves_compute_what_the_whole_does(seed: int) -> None:
    sample = graph_of(seed)
    graph = sample.graph
    nodes = [node.name for node in graph.nodes if isinstance(node, OperatorNode) and node.name in graph.live_nodes()]
    expected = graph.compile("reference", fuse=False).run(sample.inputs)
    values = dict(sample.inputs)
    for half in (nodes[: len(nodes) // 2], nodes[len(nodes) // 2 :]):
        if half:
            part = cut(graph, half)
            given = {node.name: values[node.name] for node in part.inputs}
            values |= part.compile("reference", fuse=False).run(given)
            assert dg.loads(dumps(part)).outputs.keys() == part.outputs.keys()
    for name, value in graph.outputs.items():
        if value.reference in values:
            np.testing.assert_array_equal(values[value.reference], expected[name], name)
