"""What tests ask of a graph's nodes."""

from __future__ import annotations

from typing import Any

from dmlgraph.graph.nodes import Node, OperatorNode


def operator_of(node: Node) -> Any:
    """The operator of a node, which must have one; any, because its fields are those of its class."""
    assert isinstance(node, OperatorNode), f"{node} has no operator"
    return node.operator
