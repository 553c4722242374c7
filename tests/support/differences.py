"""Derivatives by differences: a graph evaluated in float64, and how its loss changes with its inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import dmlgraph as dg
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.graph.nodes import ConstantNode, InputNode, OperatorNode, StateNode
from dmlgraph.operators import Operator

Array = np.ndarray[Any, Any]
Port = tuple[str, int]
_STEP = 2e-3
_WEIGHTS = {-2: 1 / 12, -1: -8 / 12, 1: 8 / 12, 2: -1 / 12}  # exact for polynomials of degree 4


def widened(operator: Operator) -> Operator:
    """The operator on float64 tensors in place of floats; it is not checked, because DirectML has no such operator."""
    return operator.replace(**{field: _wide(value) for field, value in operator.tensors.items()})


def _wide(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_wide, value))
    is_float = isinstance(value, TensorDesc) and value.dtype.is_float
    return value.model_copy(update={"dtype": DataType.FLOAT64}) if is_float else value


def _float64(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def read_as(array: Array, written: TensorDesc, desc: TensorDesc) -> Array:
    """An array that one description wrote, as another reads its buffer."""
    if written.strides == desc.strides:
        return array.reshape(desc.sizes)
    return desc.unpack(written.pack(array))


class Float64:
    """A graph, or what one value depends on, in float64."""

    def __init__(self, graph: dg.Graph, wanted: dg.Value | None = None) -> None:
        needed = None if wanted is None else graph.upstream(wanted.node)
        self.nodes = [node for node in graph.nodes if needed is None or node.name in needed]
        self.sources = {node.name: graph.sources(node.name) for node in self.nodes}
        self.operators = {
            node.name: widened(node.operator) if self.sources[node.name] else node.operator
            for node in self.nodes
            if isinstance(node, OperatorNode)
        }
        self.descs = {
            (node.name, port): _wide(desc)
            for node in self.nodes
            for port, desc in enumerate(node.operator.output_descs if isinstance(node, OperatorNode) else [node.desc])
        }

    def __call__(self, inputs: Mapping[str, Array]) -> dict[Port, Array]:
        """Every value, by the output of its node."""
        values: dict[Port, Array] = {}
        for node in self.nodes:
            name = node.name
            if isinstance(node, (InputNode, StateNode)):
                values[name, 0] = _float64(inputs[name])
            elif isinstance(node, ConstantNode):
                values[name, 0] = _float64(node.data)
            else:
                operator = self.operators[name]
                read = [
                    None if source is None or desc is None else read_as(values[source], self.descs[source], desc)
                    for source, desc in zip(self.sources[name], operator.input_descs, strict=True)
                ]
                results = iter(operator.evaluate(*read))
                for port, desc in enumerate(operator.output_descs):
                    if desc is not None:
                        values[name, port] = _float64(np.asarray(next(results)))
        return values


def slope(
    compute: Float64, loss: dg.Value, inputs: Mapping[str, Array], directions: Mapping[str, Array]
) -> float | None:
    """How fast the loss changes where inputs move in their directions, by differences.

    Returns:
        None where far and near differences disagree: there is a bend between them.
    """
    values = {}
    for steps in _WEIGHTS:
        moved = {name: inputs[name] + steps * _STEP * direction for name, direction in directions.items()}
        values[steps] = float(compute({**inputs, **moved})[loss.node, loss.port].reshape(()))
    found = sum(weight * values[steps] for steps, weight in _WEIGHTS.items()) / _STEP
    near = (values[1] - values[-1]) / (2 * _STEP)
    return found if abs(found - near) <= 1e-3 * (1 + abs(found)) else None


def operators_in(graph: dg.Graph) -> set[str]:
    """The names of a graph's operators."""
    return {node.operator.name for node in graph.nodes if isinstance(node, OperatorNode)}
