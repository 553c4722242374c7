"""Lowering: Graph → GraphDesc, the Python mirror of DML_GRAPH_DESC.

Every device gets a `GraphDesc`: operator nodes, constant nodes, and the three lists of edges.  It is plain data: it can
be printed (`str`), compared and hashed.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from dmlgraph.base.errors import GraphError
from dmlgraph.base.free_names import FreeNames
from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.memory import collector_paused
from dmlgraph.base.scalar import Scalar
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.graph.constant_data import Elements
from dmlgraph.graph.graph import Graph
from dmlgraph.graph.nodes import ConstantNode, InputNode, OperatorNode
from dmlgraph.graph.value import Value
from dmlgraph.operators.declaration.fields import Kind
from dmlgraph.operators.declaration.fused import FusedActivation
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.element_wise import Identity

CONSTANT_NODE_LEVEL = FeatureLevel.V6_2  # DML_GRAPH_NODE_TYPE_CONSTANT exists from here
CONSTANT_NODE_BYTES = 64  # larger constants are inputs that DirectML takes once and keeps in its own layout


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class GraphInput:
    """A slot of the graph's inputs; `elements` are those of a constant, which the device binds once, not the user."""

    name: str
    desc: TensorDesc
    elements: Elements | None = None

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


@dataclasses.dataclass(frozen=True, slots=True)
class ConstantDescNode:
    """DML_CONSTANT_DATA_GRAPH_NODE_DESC: `data` holds the bytes of `desc.total_bytes`."""

    name: str
    desc: TensorDesc
    data: bytes


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

    def __str__(self) -> str:
        return "\n".join(_lines(self)) + "\n"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GraphDesc) and str(self) == str(other)

    def __hash__(self) -> int:
        names = tuple(node.name for node in self.nodes)  # not the text, which has digests of all weights
        return hash((self.name, self.level, names, self.input_edges, self.output_edges, self.intermediate_edges))


def lower(graph: Graph, level: FeatureLevel | None = None) -> GraphDesc:
    """The graph in the form that DirectML gets.

    Nodes on which no output depends are left out; unused inputs stay.  A small constant (CONSTANT_NODE_BYTES) becomes a
    constant node where the level has them; another becomes an input owned by DirectML.  A constant with a reader that
    does not accept owned tensors becomes an input that is bound at every run: with a constant node for such a reader,
    DirectML removes the device.  DirectML has no edge from a graph input or a constant to a graph output: an identity
    is inserted between them.

    Args:
        graph: with at least one output.
        level: the device's level; by default the graph's.

    Raises:
        GraphError: the graph has no outputs.
    """
    with collector_paused():
        return _Lowering(graph, min(level, graph.level) if level else graph.level).run()


class _Lowering:
    """The state of one lowering: where each graph value went."""

    def __init__(self, graph: Graph, level: FeatureLevel) -> None:
        self.graph, self.level = graph, level
        self.inputs: list[GraphInput] = []
        self.nodes: list[OperatorDescNode | ConstantDescNode] = []
        self.input_edges: list[InputEdge] = []
        self.intermediate_edges: list[IntermediateEdge] = []
        self.input_index: dict[str, int] = {}  # node name → slot
        self.node_index: dict[str, int] = {}  # node name → index in nodes
        self.owned: set[str] = set()
        self.free_names = FreeNames(node.name for node in graph.nodes)
        self.kept = {
            source
            for node in graph.nodes
            if isinstance(node, OperatorNode) and not node.operator.takes_owned
            for source, _, _ in graph.producers(node.name)
        }  # values that some reader refuses as owned tensors

    def run(self) -> GraphDesc:
        if not self.graph.outputs:
            raise GraphError(
                f"the graph '{self.graph.name}' has no outputs", code="no-outputs", hint="name at least one"
            )
        live = self.graph.live_nodes()
        for node in self.graph.nodes:
            if isinstance(node, InputNode):
                self._add_input(GraphInput(node.name, node.desc))
            elif node.name not in live:
                continue
            elif isinstance(node, ConstantNode):
                self._add_constant(node)
            else:
                self._add_operator(node)
        outputs, output_edges = self._outputs()
        return GraphDesc(
            name=self.graph.name,
            level=self.level,
            inputs=tuple(self.inputs),
            outputs=outputs,
            nodes=tuple(self.nodes),
            input_edges=tuple(self.input_edges),
            output_edges=output_edges,
            intermediate_edges=tuple(self.intermediate_edges),
        )

    def _add_input(self, given: GraphInput) -> None:
        self.input_index[given.name] = len(self.inputs)
        self.inputs.append(given)

    def _add_constant(self, node: ConstantNode) -> None:
        if node.name in self.kept:
            self._add_input(GraphInput(node.name, node.desc, node.elements))
        elif self.level >= CONSTANT_NODE_LEVEL and node.desc.total_bytes <= CONSTANT_NODE_BYTES:
            self.node_index[node.name] = len(self.nodes)
            self.nodes.append(ConstantDescNode(node.name, node.desc, node.desc.pack(node.data).tobytes()))
        else:
            self.owned.add(node.name)
            self._add_input(GraphInput(node.name, _owned(node.desc), node.elements))

    def _add_operator(self, node: OperatorNode) -> None:
        producers = self.graph.producers(node.name)
        operator = node.operator
        from_owned = {port for source, _, port in producers if source in self.owned}
        if from_owned:
            operator = own_inputs(operator, from_owned)
        self._append(OperatorDescNode(node.name, operator), producers)

    def _append(self, node: OperatorDescNode, producers: list[tuple[str, int, int]]) -> int:
        index = len(self.nodes)
        self.node_index[node.name] = index
        self.nodes.append(node)
        for source, from_port, to_port in producers:
            if source in self.input_index:
                self.input_edges.append(InputEdge(self.input_index[source], index, to_port))
            else:
                self.intermediate_edges.append(IntermediateEdge(self.node_index[source], from_port, index, to_port))
        return index

    def _outputs(self) -> tuple[tuple[GraphOutput, ...], tuple[OutputEdge, ...]]:
        outputs, edges = [], []
        layouts = self.graph.layouts
        for slot, (name, value) in enumerate(self.graph.outputs.items()):
            index, port = self.node_index.get(value.node), value.port
            desc = layouts.get(name) or value.desc
            if index is None or isinstance(self.nodes[index], ConstantDescNode):
                index, port = self._copy(name, value), 0
                desc = desc if name in layouts else _kept_as(desc, self.nodes[index])
            outputs.append(GraphOutput(name, desc))
            edges.append(OutputEdge(index, port, slot))
        return tuple(outputs), tuple(edges)

    def _copy(self, output: str, value: Value) -> int:
        """Inserts an identity between a graph output and a value that cannot be one."""
        desc = _owned(value.desc) if value.node in self.owned else value.desc
        name = self.free_names.take(f"{output}_identity")
        return self._append(OperatorDescNode(name, copy_of(desc, self.level)), [(value.node, value.port, 0)])


@functools.lru_cache(maxsize=1024)
def copy_of(desc: TensorDesc, level: FeatureLevel) -> Identity:
    """An identity that copies a tensor.

    DirectML has no identity for some data types and ranks at some levels, and for 4-bit types at no level.  Then the
    tensor's bytes are copied as 32-bit words, including the gaps between its elements.
    """
    words = [desc.total_bytes // 4]
    as_words = (TensorDesc(dtype=dtype, sizes=[1, 1, 1, *words], owned=desc.owned) for dtype in WORDS)
    return next(
        identity
        for identity in (Identity(input=each) for each in itertools.chain([desc], as_words))
        if not identity.level_problems(level)
    )


# Integers, which no hardware treats as NaN or denormals, exist from level 2.1.
WORDS = (DataType.UINT32, DataType.FLOAT32)


def _kept_as(desc: TensorDesc, copy: OperatorDescNode | ConstantDescNode) -> TensorDesc:
    """The description of a tensor's copy: packed, or the same layout if the copy is by words."""
    assert isinstance(copy, OperatorDescNode)
    written = copy.operator.output_descs[0]
    assert written is not None
    alike = (written.dtype, written.sizes) == (desc.dtype, desc.sizes)
    return written if alike else desc.like(strides=desc.strides)


def _owned(desc: TensorDesc) -> TensorDesc:
    return TensorDesc(dtype=desc.dtype, sizes=desc.sizes, strides=desc.strides, owned=True)


def own_inputs(operator: Operator, ports: set[int]) -> Operator:
    """The operator with DML_TENSOR_FLAG_OWNED_BY_DML on the input descriptions at these ports."""
    descs = operator.input_descs
    return operator.with_inputs({port: _owned(desc) for port in ports if (desc := descs[port]) is not None})


def _lines(desc: GraphDesc) -> Iterator[str]:
    """The stable text form: one fact per line, so that a small change in a graph is a small diff."""
    yield f"graph {desc.name}"
    yield f"level {desc.level}"
    for index, given in enumerate(desc.inputs):
        data = "" if given.data is None else f" {_digest(given.desc.pack(given.data).tobytes())}"
        yield f"input {index} {given.name}: {_tensor(given.desc)}{data}"
    for index, output in enumerate(desc.outputs):
        yield f"output {index} {output.name}: {_tensor(output.desc)}"
    for index, node in enumerate(desc.nodes):
        if isinstance(node, ConstantDescNode):
            yield f"node {index} {node.name}: CONSTANT {_tensor(node.desc)} {_digest(node.data)}"
        else:
            yield f"node {index} {node.name}: {node.operator.dml}"
            for member, value in node.operator.struct_values():
                yield f"    {member.name} = {_value(value, member.kind)}"
    for edge in desc.input_edges:
        name = desc.inputs[edge.input].name
        yield f"edge input {edge.input} {name} -> {_port(desc, edge.to_node, edge.to_port)}"
    for inner in desc.intermediate_edges:
        source = _port(desc, inner.from_node, inner.from_port)
        yield f"edge {source} -> {_port(desc, inner.to_node, inner.to_port)}"
    for last in desc.output_edges:
        name = desc.outputs[last.output].name
        yield f"edge {_port(desc, last.from_node, last.from_port)} -> output {last.output} {name}"


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
