"""Operators of other domains that are ONNX's own ones with other inputs, layouts or attributes."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from dmlgraph.onnx.node import Node
from dmlgraph.onnx.refusals import Refusal
from dmlgraph.onnx.table import find
from dmlgraph.onnx.tensors import Tensor
from dmlgraph.value import Value

OPSET = 21  # in which ONNX's operators are called, unless another is given


def own(node: Node, operator: str, *inputs: Tensor | None, opset: int = OPSET, **attributes: Any) -> Tensor:
    """The first output of ONNX's own operator, by its rule.

    Args:
        node: has the attributes that are not given.
        operator: of ONNX; its rule must need no definition by other operators.
        inputs: of the operator.
        opset: whose form of the operator is meant.
        attributes: in place of the node's; None takes one away.

    Raises:
        Refusal: the rule refuses the node, or the opset does not have the operator.
    """
    row = find("", operator, opset)
    if row is None:
        raise Refusal(f"there is no {operator} in this opset", code="opset", field="opset", got=opset)
    kept = {name: each for name, each in node.attributes.items() if name not in attributes}
    given = {name: each for name, each in attributes.items() if each is not None}
    named = {each.name: each for each in ir.convenience.convert_attributes(given)}
    called = Node(operator, "", opset, inputs, [True], kept | named, node.dml, node.run, node.converted)
    result = row.rule(called)
    if isinstance(result, (list, tuple)):
        result = result[0]
    if isinstance(result, Value):
        return node.tensor(result)
    return result if isinstance(result, Tensor) else Tensor.of(result)


def channels_first(node: Node, x: Tensor) -> Tensor:
    """{N, spatial…, C} as {N, C, spatial…}."""
    return node.tensor(node.dml.transposed(x, [0, x.rank - 1, *range(1, x.rank - 1)]))


def channels_last(node: Node, x: Tensor) -> Tensor:
    """{N, C, spatial…} as {N, spatial…, C}."""
    return node.tensor(node.dml.transposed(x, [0, *range(2, x.rank), 1]))
