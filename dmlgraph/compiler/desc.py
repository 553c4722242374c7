"""GraphDesc: the Python mirror of DML_GRAPH_DESC, as plain data.

Operator nodes, constant nodes, and the three lists of edges: it can be printed (`str`), compared and hashed.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.scalar import Scalar
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.graph.constant_data import ConstantData
from dmlgraph.operators.declaration.fields import Kind
from dmlgraph.operators.declaration.fused import FusedActivation
from dmlgraph.operators.declaration.operator import Operator


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class GraphInput:
    """A slot of the graph's inputs; `elements` are those of a constant, which the device binds once, not the user."""

    name: str
    desc: TensorDesc
    elements: ConstantData | None = None

    @property
    def data(self) -> np.ndarray[Any, Any] | None:
        """The elements as an array.  Whether there are any, `elements` says without making one."""
        return None if self.elements is None else self.elements.array


@dataclasses.dataclass(frozen=True, slots=True)
class GraphOutput:
    """A slot of the graph's outputs."""

    name: str
    desc: TensorDesc


@dataclasses.dataclass(frozen=True, slots=True)
class OperatorDescNode:
    """DML_OPERATOR_GRAPH_NODE_DESC."""

    name: str
    operator: Operator

    @property
    def input_descs(self) -> tuple[TensorDesc | None, ...]:
        return self.operator.input_descs

    @property
    def output_descs(self) -> tuple[TensorDesc | None, ...]:
        return self.operator.output_descs


@dataclasses.dataclass(frozen=True, slots=True)
class ConstantDescNode:
    """DML_CONSTANT_DATA_GRAPH_NODE_DESC: `data` holds the bytes of `desc.total_bytes`."""

    name: str
    desc: TensorDesc
    data: bytes

    @property
    def input_descs(self) -> tuple[TensorDesc | None, ...]:
        return ()

    @property
    def output_descs(self) -> tuple[TensorDesc | None, ...]:
        return (self.desc,)


@dataclasses.dataclass(frozen=True, slots=True)
class InputEdge:
    """DML_INPUT_GRAPH_EDGE_DESC: graph input → a node's input."""

    input: int
    to_node: int
    to_port: int


@dataclasses.dataclass(frozen=True, slots=True)
class OutputEdge:
    """DML_OUTPUT_GRAPH_EDGE_DESC: a node's output → graph output."""

    from_node: int
    from_port: int
    output: int


@dataclasses.dataclass(frozen=True, slots=True)
class IntermediateEdge:
    """DML_INTERMEDIATE_GRAPH_EDGE_DESC: a node's output → another node's input."""

    from_node: int
    from_port: int
    to_node: int
    to_port: int


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class GraphState:
    """A state: which inputs of the graph hold it before a run, and which output changes it.

    Attributes:
        input: the input of what it holds.
        length: the input of its length, if it grows.
        output: the output of its next value, or of the rows to append; None if a run does not change it.
        grows: the axis of its rows; None if it is updated whole.
        initial: what it holds at first; None: zeros.
    """

    name: str
    input: str
    length: str | None
    output: str | None
    grows: int | None
    initial: ConstantData | Scalar | None


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class GraphDesc:
    """A lowered graph.  Nodes are in execution order; edges hold indices.

    Two are equal if their texts are: same names, operators, constants and edges.
    """

    name: str
    level: FeatureLevel
    inputs: tuple[GraphInput, ...]
    outputs: tuple[GraphOutput, ...]
    nodes: tuple[OperatorDescNode | ConstantDescNode, ...]
    input_edges: tuple[InputEdge, ...]
    output_edges: tuple[OutputEdge, ...]
    intermediate_edges: tuple[IntermediateEdge, ...]
    states: tuple[GraphState, ...] = ()

    @property
    def given(self) -> tuple[GraphInput, ...]:
        """The inputs that a run is given: neither constants nor what states hold."""
        held = {name for state in self.states for name in (state.input, state.length)}
        return tuple(each for each in self.inputs if each.elements is None and each.name not in held)

    @property
    def held(self) -> tuple[tuple[GraphState, TensorDesc], ...]:
        """The states, each with the description of what it holds."""
        descs = {slot.name: slot.desc for slot in self.inputs}
        return tuple((state, descs[state.input]) for state in self.states)

    @property
    def results(self) -> tuple[GraphOutput, ...]:
        """The outputs that a run returns: not those that change states."""
        changing = {state.output for state in self.states}
        return tuple(each for each in self.outputs if each.name not in changing)

    def __str__(self) -> str:
        return "\n".join(_lines(self)) + "\n"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GraphDesc) and str(self) == str(other)

    def __hash__(self) -> int:
        names = tuple(node.name for node in self.nodes)  # not the text, which has digests of all weights
        return hash((self.name, self.level, names, self.input_edges, self.output_edges, self.intermediate_edges))


def _lines(desc: GraphDesc) -> Iterator[str]:
    """The stable text form: one fact per line, so that a small change in a graph is a small diff."""
    yield f"graph {desc.name}"
    yield f"level {desc.level}"
    for index, given in enumerate(desc.inputs):
        data = "" if given.data is None else f" {_digest(given.desc.pack(given.data).tobytes())}"
        yield f"input {index} {given.name}: {_tensor(given.desc)}{data}"
    for index, output in enumerate(desc.outputs):
        yield f"output {index} {output.name}: {_tensor(output.desc)}"
    for index, state in enumerate(desc.states):
        yield f"state {index} {state.name}: {', '.join(_state(desc, state))}"
    for index, node in enumerate(desc.nodes):
        if isinstance(node, ConstantDescNode):
            yield f"node {index} {node.name}: CONSTANT {_tensor(node.desc)} {_digest(node.data)}"
        else:
            yield f"node {index} {node.name}: {node.operator.dml}"
            yield from (f"    {member} = {text}" for member, text in field_texts(node.operator))
    for edge in desc.input_edges:
        name = desc.inputs[edge.input].name
        yield f"edge input {edge.input} {name} -> {_port(desc, edge.to_node, edge.to_port)}"
    for inner in desc.intermediate_edges:
        source = _port(desc, inner.from_node, inner.from_port)
        yield f"edge {source} -> {_port(desc, inner.to_node, inner.to_port)}"
    for last in desc.output_edges:
        name = desc.outputs[last.output].name
        yield f"edge {_port(desc, last.from_node, last.from_port)} -> output {last.output} {name}"


def field_texts(operator: Operator) -> Iterator[tuple[str, str]]:
    """The members of an operator's C struct with their values as text, in order."""
    return ((member.name, _value(value, member.kind)) for member, value in operator.struct_values())


def _state(desc: GraphDesc, state: GraphState) -> Iterator[str]:
    inputs, outputs = ([each.name for each in slots] for slots in (desc.inputs, desc.outputs))
    place = inputs.index(state.input)
    yield f"input {place}"
    if state.length is not None:
        yield f"length input {inputs.index(state.length)}"
    if state.output is not None:
        what = "next" if state.grows is None else f"rows of axis {state.grows}"
        yield f"{what} output {outputs.index(state.output)}"
    if isinstance(state.initial, Scalar):
        yield f"initial {state.initial}"
    elif state.initial is not None:
        yield f"initial {_digest(desc.inputs[place].desc.pack(state.initial.array).tobytes())}"


def _port(desc: GraphDesc, node: int, port: int) -> str:
    return f"node {node} {desc.nodes[node].name}:{port}"


def _tensor(desc: TensorDesc) -> str:
    return f"{desc}, {desc.total_bytes} bytes"


def _digest(data: bytes) -> str:
    return f"sha256 {hashlib.sha256(data).hexdigest()[:16]}"


def _value(value: Any, kind: Kind) -> str:
    if value is None:
        return "null"
    if isinstance(value, tuple):
        return f"[{', '.join(_value(each, kind) for each in value)}]"
    if isinstance(value, TensorDesc):
        return _tensor(value)
    if isinstance(value, FusedActivation):
        fields = "".join(f" {m.name}={_value(each, m.kind)}" for m, each in value.struct_values() if not m.role)
        return f"{value.operator.dml}{fields}"
    if isinstance(value, (Scalar, DataType)):
        return str(value)
    if kind is Kind.FLOAT:
        return str(np.float32(value))
    if kind is Kind.SCALE_BIAS:
        return f"scale {_value(value.scale, Kind.FLOAT)} bias {_value(value.bias, Kind.FLOAT)}"
    return str(value)
