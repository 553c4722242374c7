"""Two executions in place of one."""

from __future__ import annotations

import numpy as np
import pytest
from support.faulty_device import Call, faulty
from support.problems import raises

import dmlgraph as dg
from dmlgraph.compiler.desc import OperatorDescNode
from dmlgraph.devices import choose
from dmlgraph.doctor.diagnosis import diagnose
from dmlgraph.doctor.parts import run, split
from dmlgraph.doctor.report import text
from dmlgraph.graph.nodes import OperatorNode

X = np.array([[1, -2, 3]], np.float32)


def graph() -> dg.Graph:
    """y = relu(−x + 1) · x, z = −x + 1."""
    g = dg.Graph("parts")
    x = g.input("x", sizes=[1, 3], dtype="float32")
    shifted = dg.add(dg.negate(x, name="turned"), g.constant("one", np.ones((1, 3), np.float32)), name="shifted")
    g.output("y", dg.multiply(dg.activation_relu(shifted, name="cut"), x, name="product"))
    g.output("z", shifted)
    return g


def operators(part: dg.Graph) -> list[str]:
    return [each.name for each in part.nodes if isinstance(each, OperatorNode)]


@pytest.mark.parametrize(
    ("node", "first", "second"),
    [
        ("cut", ["turned", "shifted"], ["cut", "product"]),
        ("product", ["turned", "shifted", "cut"], ["product"]),
        ("turned", ["turned"], ["shifted", "cut", "product"]),
    ],
)
def test_the_second_begins_at_the_node_or_behind_it(node: str, first: list[str], second: list[str]) -> None:
    parts = split(graph(), node)
    assert (operators(parts[0]), operators(parts[1])) == (first, second)
    got, count = run(graph(), parts, {"x": X}, choose("reference"))
    np.testing.assert_array_equal(got["y"], [[0, -6, 0]])
    np.testing.assert_array_equal(got["z"], [[0, 3, -2]])
    assert count >= 3


def test_what_has_no_parts() -> None:
    g = dg.Graph()
    g.output("y", dg.exp(g.input("x", sizes=[2], dtype="float32"), name="y"))
    with raises(dg.GraphError, "conflict", node="y"):
        split(g, "y")
    s = g.state("s", sizes=[2], dtype="float32")
    g.update(s, s + 1)
    with raises(dg.GraphError, "states", node="s"):
        split(g, "y")


def test_a_graph_that_is_right_only_in_parts() -> None:
    """The device is wrong where it multiplies in a graph that also turns the sign."""

    def is_wrong(call: Call) -> bool:
        names = {each.operator.name for each in call.graph.nodes if isinstance(each, OperatorDescNode)}
        return call.operator.name == "multiply" and "negate" in names

    found = diagnose(graph(), ["product"], {"x": X}, faulty(is_wrong), fuse=False)
    assert found.case is None
    assert found.treatment is not None
    results = {each.way.name: each.result for each in found.treatment.tried}
    assert results["in two executions"] == "the whole graph is right"
    assert results["inputs_copied"] == "the whole graph is still wrong"
    assert found.treatment.best is None  # a file cannot say it
    assert "in two executions: The graph is run in two executions" in text(found)
