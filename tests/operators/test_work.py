"""How much arithmetic operators do, against counts by hand."""

from __future__ import annotations

from typing import Any

import pytest

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.graph.nodes import OperatorNode
from dmlgraph.graph.value import Value
from dmlgraph.operators import REGISTRY
from dmlgraph.operators.catalog.examples import example
from dmlgraph.operators.declaration.operator import Operator

LSTM = ["activation_sigmoid", "activation_tanh", "activation_tanh"]


def operator_of(value: Value) -> Operator:
    node = value.graph.node(value.node)
    assert isinstance(node, OperatorNode)
    return node.operator


def inputs(*sizes: list[int], dtype: DataTypeName = "float32") -> list[Value]:
    g = dg.Graph("work")
    return [g.input(f"x{index}", sizes=each, dtype=dtype) for index, each in enumerate(sizes)]


@pytest.mark.parametrize(
    ("a", "b", "fields"),
    [
        ([2, 3, 5], [2, 5, 7], {}),
        ([2, 5, 3], [2, 5, 7], {"trans_a": "transpose"}),
        ([2, 3, 5], [2, 7, 5], {"trans_b": "transpose"}),
    ],
    ids=["plain", "a", "b"],
)
def test_gemm(a: list[int], b: list[int], fields: dict[str, Any]) -> None:
    left, right = inputs(a, b)
    assert operator_of(dg.gemm(left, right, **fields)).operations() == 2 * 2 * 3 * 5 * 7


def test_integer_products() -> None:
    a, b = inputs([1, 1, 3, 5], [1, 1, 5, 7], dtype="int8")
    assert operator_of(dg.matrix_multiply_integer(a, None, b, None)).operations() == 2 * 3 * 5 * 7


def test_convolution() -> None:
    x, w = inputs([2, 6, 9, 9], [4, 3, 3, 5])
    forward = operator_of(dg.convolution(x, w, group_count=2, strides=[2, 1]))
    assert forward.first_output.sizes == (2, 4, 4, 5)
    assert forward.operations() == 2 * (2 * 4 * 4 * 5) * (3 * 3 * 5)
    x, w = inputs([2, 4, 4, 5], [4, 3, 3, 5])
    # Each of the 4 channels of the input adds a filter of 3 channels to the output, at each of its places.
    backward = operator_of(dg.convolution(x, w, direction="backward", strides=[2, 1]))
    assert backward.operations() == 2 * (2 * 4 * 4 * 5) * (3 * 3 * 5)


def test_recurrent_layers() -> None:
    x, w, r = inputs([1, 7, 2, 3], [1, 1, 20, 3], [1, 1, 20, 5])
    y = dg.lstm(x, w, r, direction="forward", activation_descs=LSTM)
    assert y.output_sequence is not None
    assert operator_of(y.output_sequence).operations() == 2 * 7 * 2 * (20 * 3 + 20 * 5)


def test_attention() -> None:
    q, k, v = inputs([2, 4, 6], [2, 5, 6], [2, 5, 9])
    # 3 heads of 2 numbers, with values of 3.
    y = dg.multihead_attention(q, k, v, head_count=3, scale=1.0)
    assert operator_of(y).operations() == 2 * (2 * 3 * 4 * 5) * (2 + 3)


def test_others_count_bytes() -> None:
    (x,) = inputs([4, 4])
    assert operator_of(dg.exp(x)).operations() == 0


def test_every_operator_has_a_count() -> None:
    for kind in REGISTRY.values():
        for node in dg.loads(example(kind)).nodes:
            if isinstance(node, OperatorNode):
                assert node.operator.operations() >= 0
