"""Checked operators: equal nodes are checked once, and different nodes are never taken for checked ones."""

from __future__ import annotations

import copy
import pickle
import struct
from typing import Any

import numpy as np
import pytest
from support.problems import raises

import dmlgraph as dg
from dmlgraph.base.errors import DmlGraphError
from dmlgraph.graph.nodes import OperatorNode
from dmlgraph.graph.operator_cache import OperatorCache
from dmlgraph.operators.declaration.operator import Operator


def operator_of(value: dg.Value) -> Operator:
    node = value.graph.node(value.node)
    assert isinstance(node, OperatorNode)
    return node.operator


@pytest.fixture
def g() -> dg.Graph:
    return dg.Graph("test", dims={"N": 4})


@pytest.fixture
def x(g: dg.Graph) -> dg.Value:
    return g.input("x", sizes=["N", 3], dtype="float32")


def test_equal_nodes_share_their_operator(g: dg.Graph, x: dg.Value) -> None:
    one, other = dg.exp(dg.activation_relu(x)), dg.exp(x)
    assert operator_of(one) is operator_of(other)
    y = g.input("y", sizes=[4, 3], dtype="float32")  # an equal description of another node
    assert operator_of(dg.exp(y)) is operator_of(one)
    assert operator_of(one + y) is operator_of(y + x)
    assert operator_of(one * 2) is operator_of(y * 2)


@pytest.mark.parametrize(
    ("field", "numbers"),
    [("alpha", (0.0, -0.0)), ("alpha", (1.0, 2.0)), ("alpha", (np.float32(0.1), 0.1)), ("alpha", (1, 1.5))],
)
def test_other_numbers_are_other_operators(x: dg.Value, field: str, numbers: tuple[Any, Any]) -> None:
    one, other = (getattr(operator_of(dg.activation_elu(x, **{field: each})), field) for each in numbers)
    assert [struct.pack("f", each) for each in (one, other)] == [struct.pack("f", each) for each in numbers]


def test_a_field_of_a_wrong_type_is_refused_behind_a_right_one(x: dg.Value) -> None:
    dg.reduce(x, function="sum", axes=[1])
    with raises(DmlGraphError, "kind", node="reduce_1", field="axes.0", got=True):
        dg.reduce(x, function="sum", axes=[True])
    with raises(DmlGraphError, "kind", node="reduce_1", field="axes.0", got=1.0):
        dg.reduce(x, function="sum", axes=[1.0])  # type: ignore[list-item]
    dg.activation_elu(x, alpha=1)
    with raises(DmlGraphError, "kind", node="activation_elu_1", field="alpha", got=True):
        dg.activation_elu(x, alpha=True)


def test_what_was_refused_is_refused_again(x: dg.Value) -> None:
    texts = []
    for _ in range(2):
        with pytest.raises(DmlGraphError) as caught:
            dg.reduce(x, function="sum", axes=[5], name="r")
        texts.append(str(caught.value))
    assert texts[0] == texts[1]


def test_dims_are_resolved_before(g: dg.Graph, x: dg.Value) -> None:
    first = dg.slice1(
        x, input_window_offsets=[0, 0], input_window_sizes=["N", 2], input_window_strides=[1, 1], name="first"
    )
    assert first.sizes == (4, 2)
    other = g.with_dims({"N": 7})
    assert other.node("first").operator.output.sizes == (7, 2)  # type: ignore[union-attr]
    g._dims.values["N"] = 2  # nobody should do this, but it must not return the result for 4
    second = dg.slice1(x, input_window_offsets=[0, 0], input_window_sizes=["N", 2], input_window_strides=[1, 1])
    assert second.sizes == (2, 2)


def test_a_fused_activation_is_a_field(x: dg.Value) -> None:
    y = dg.gemm(x, x, trans_b="transpose", fused_activation={"op": "activation_relu"})
    z = dg.gemm(x, x, trans_b="transpose")
    again = dg.gemm(x, x, trans_b="transpose", fused_activation={"op": "activation_relu"})
    assert operator_of(y) is operator_of(again)
    assert operator_of(y) != operator_of(z)


def test_what_outputs_are_asked_for_is_a_field(x: dg.Value) -> None:
    packed, spread = dg.exp(x), dg.exp(x, output={"strides": [5, 1]})
    assert packed.desc.strides is None
    assert spread.desc.strides == (5, 1)
    assert operator_of(dg.exp(spread)) is not operator_of(dg.exp(packed))


def test_copies_of_a_graph_go_their_own_ways(g: dg.Graph, x: dg.Value) -> None:
    y = dg.exp(x)
    other = copy.deepcopy(g)
    z = dg.exp(other.value("x"), name="z")
    assert operator_of(z) == operator_of(y)
    assert "z" not in {node.name for node in g.nodes}


def test_elsewhere_nothing_is_known() -> None:
    """Keys contain addresses, which are meaningless in another process."""
    again = pickle.loads(pickle.dumps(OperatorCache()))
    assert isinstance(again, OperatorCache)
    assert vars(again) == {"_operators": {}, "_descs": {}}
