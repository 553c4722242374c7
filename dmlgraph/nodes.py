"""The nodes of a graph: inputs, constants and operators."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from dmlgraph.operators.operator import Operator
from dmlgraph.tensor import TensorDesc


@dataclasses.dataclass(frozen=True, slots=True)
class InputNode:
    """A tensor given at every run; `declared` is its description with the dims by name."""

    name: str
    desc: TensorDesc
    declared: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class ConstantNode:
    """A tensor known beforehand."""

    name: str
    desc: TensorDesc
    data: np.ndarray[Any, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class OperatorNode:
    """An operator with all fields; `attributes` and `outputs` are what was given, with the dims by name."""

    name: str
    operator: Operator
    attributes: Mapping[str, Any]
    outputs: Mapping[str, Any]


Node = InputNode | ConstantNode | OperatorNode


def output_paths(node: Node) -> list[str]:
    """What to write behind a node's name to mean each of its outputs, in binding order.

    Nothing, where it is the only one that is there; one that is left out has its path, too.
    """
    paths = full_output_paths(node)
    if not isinstance(node, OperatorNode) or any(node.operator.output_arrays.values()):
        return paths
    present = [port for port, desc in enumerate(node.operator.output_descs) if desc is not None]
    return ["" if present == [port] else path for port, path in enumerate(paths)]


def full_output_paths(node: Node) -> list[str]:
    """As `output_paths`, with the path of every output of an operator that may have several."""
    if not isinstance(node, OperatorNode):
        return [""]
    fields = {field: getattr(node.operator, field) for field in node.operator.output_fields}
    if len(fields) == 1 and not isinstance(next(iter(fields.values())), tuple):
        return [""]
    paths: list[str] = []
    for field, value in fields.items():
        paths += [f".{field}.{index}" for index in range(len(value))] if isinstance(value, tuple) else [f".{field}"]
    return paths
