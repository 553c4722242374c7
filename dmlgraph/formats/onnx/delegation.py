"""Operators of other domains that are ONNX's own ones with other inputs, layouts or attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from dmlgraph.formats.onnx.node import Node
from dmlgraph.formats.onnx.refusals import Refusal
from dmlgraph.formats.onnx.table import find
from dmlgraph.formats.onnx.tensors import Tensor
from dmlgraph.graph.value import Value

OPSET = 21  # in which ONNX's operators are called, unless another is given


def own(node: Node, operator: str, *inputs: Tensor | None, opset: int = OPSET, **attributes: Any) -> Tensor:
    """The only output of ONNX's own operator; see `own_outputs`."""
    return own_outputs(node, operator, [True], *inputs, opset=opset, **attributes)[0]


def own_outputs(
    node: Node,
    operator: str,
    outputs: Sequence[bool],
    *inputs: Tensor | None,
    opset: int = OPSET,
    **attributes: Any,
) -> list[Tensor]:
    """The outputs of ONNX's own operator, by its rule.

    Args:
        node: has the attributes that are not given.
        operator: of ONNX; its rule must need no definition by other operators.
        outputs: which of its outputs are asked for.
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
    called = Node(operator, "", opset, inputs, outputs, kept | named, node.dml, node.run, node.converted)
    results = row.rule(called)
    return [
        each if isinstance(each, Tensor) else node.tensor(each) if isinstance(each, Value) else Tensor.of(each)
        for each in (results if isinstance(results, (list, tuple)) else [results])
    ]


def channels_first(node: Node, x: Tensor) -> Tensor:
    """{N, spatial…, C} as {N, C, spatial…}."""
    return node.tensor(node.dml.transposed(x, [0, x.rank - 1, *range(1, x.rank - 1)]))


def channels_last(node: Node, x: Tensor) -> Tensor:
    """{N, C, spatial…} as {N, spatial…, C}."""
    return node.tensor(node.dml.transposed(x, [0, *range(2, x.rank), 1]))
