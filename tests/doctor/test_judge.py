"""The bounds of a node, for numbers of which tables alone say little."""

from __future__ import annotations

import numpy as np

import dmlgraph as dg
from dmlgraph.doctor.judge import Judge
from dmlgraph.graph.nodes import OperatorNode
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.passes import fuse

JUDGE = Judge("directml:software")


def operator_of(y: dg.Value) -> Operator:
    node = y.graph.node(y.node)
    assert isinstance(node, OperatorNode)
    return node.operator


def test_a_softmax_is_judged_whatever_a_mask_takes_from_its_scores() -> None:
    x = dg.Graph().input("x", sizes=[1, 3], dtype="float32")
    scores = np.array([[1.0, 2.0, np.finfo(np.float32).min]], np.float32)
    softmax = operator_of(dg.softmax(x))
    (right,) = softmax.evaluate(scores)
    assert not JUDGE.wrong(softmax, [scores], [right], [right])
    assert JUDGE.wrong(softmax, [scores], [right + np.float32(0.01)], [right])
    assert not JUDGE.wrong(softmax, [-scores], [right], [right + 1])  # a number so large may overflow


def test_float16_has_fewer_units() -> None:
    """64 of its units are 6 %."""
    root = operator_of(dg.sqrt(dg.Graph().input("x", sizes=[1, 3], dtype="float16")))
    given = np.array([[1.0, 4.0, 9.0]], np.float16)
    (right,) = root.evaluate(given)
    assert not JUDGE.wrong(root, [given], [right + 12 * np.spacing(right)], [right])
    assert JUDGE.wrong(root, [given], [right + 24 * np.spacing(right)], [right])


def test_a_fused_activation_has_its_own_bound() -> None:
    """DirectML's softplus has the rounding error of numbers near 1, also where it is nearly 0."""
    g = dg.Graph(target="6.2")
    x = g.input("x", sizes=[1, 1, 1, 2], dtype="float32")
    g.output("y", dg.activation_softplus(dg.add(x, x), steepness=1.0))
    (node,) = (each for each in fuse(g).graph.nodes if isinstance(each, OperatorNode))
    assert node.operator.attributes["fused_activation"].name == "activation_softplus"
    given = np.array([[[[-6.5, -20.0]]]], np.float32)
    (right,) = node.operator.evaluate(given, given)
    off = (right + np.array([5e-8, -right[0, 0, 0, 1]], np.float32)).astype(np.float32)
    assert not JUDGE.wrong(node.operator, [given, given], [off], [right])
    assert JUDGE.wrong(node.operator, [given, given], [right + np.float32(1e-4)], [right])
