"""Lowering: IR → GraphDesc, the Python mirror of DML_GRAPH_DESC.

Every device gets a `GraphDesc`: operator nodes, constant nodes, and the three lists of edges.  It is plain data: it can
be printed (`str`), compared and hashed.  A device that must change it once more thaws it to an IR, and freezes that.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar, cast

from dmlgraph.base.errors import GraphError
from dmlgraph.base.free_names import FreeNames
from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.memory import collector_paused
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.compiler.desc import (
    ConstantDescNode,
    GraphDesc,
    GraphInput,
    GraphOutput,
    InputEdge,
    IntermediateEdge,
    OperatorDescNode,
    OutputEdge,
)
from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.ir_node import IrNode, Source
from dmlgraph.graph.nodes import ConstantNode, InputNode
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.element_wise import Identity

if TYPE_CHECKING:
    from dmlgraph.graph.graph import Graph

CONSTANT_NODE_LEVEL = FeatureLevel.V6_2  # DML_GRAPH_NODE_TYPE_CONSTANT exists from here
CONSTANT_NODE_BYTES = 64  # larger constants are inputs that DirectML takes once and keeps in its own layout


Lowered = GraphInput | OperatorDescNode | ConstantDescNode
_Lowered = TypeVar("_Lowered", GraphInput, OperatorDescNode | ConstantDescNode)


def lower(graph: Graph | IrGraph, level: FeatureLevel | None = None) -> GraphDesc:
    """The graph in the form that DirectML gets.

    Nodes on which no output depends are left out; unused inputs stay.  A small constant (CONSTANT_NODE_BYTES) becomes a
    constant node where the level has them; another becomes an input owned by DirectML.  A constant with a reader that
    does not accept owned tensors becomes an input that is bound at every run: with a constant node for such a reader,
    DirectML removes the device.  DirectML has no edge from a graph input or a constant to a graph output: an identity
    is inserted between them.

    Args:
        graph: with at least one output, and without views.
        level: the device's level; by default the graph's.

    Raises:
        GraphError: the graph has no outputs.
    """
    with collector_paused():
        ir = graph if isinstance(graph, IrGraph) else IrGraph.of(graph)
        return _Lowering(ir, min(level, ir.level) if level else ir.level).run()


class _Lowering:
    """The state of one lowering: the nodes in their lowered form, by name and in execution order."""

    def __init__(self, ir: IrGraph, level: FeatureLevel) -> None:
        self.ir, self.level = ir, level
        self.lowered: dict[str, tuple[Lowered, list[Source | None]]] = {}
        self.owned: set[str] = set()
        self.free_names = FreeNames(ir.names)
        self.bound = {
            source.node
            for node in ir
            if node.operator is not None and not node.operator.takes_owned
            for source in node.sources
            if source is not None
        }  # values that some reader refuses as owned tensors

    def run(self) -> GraphDesc:
        if not self.ir.outputs:
            raise GraphError(f"the graph '{self.ir.name}' has no outputs", code="no-outputs", hint="name at least one")
        for node in self.ir.in_order():
            self.lowered[node.name] = self._lowered(node), node.sources
        outputs = {name: self._output(name, source) for name, source in self.ir.outputs.items()}
        return _frozen(self.ir, self.level, self.lowered.values(), outputs)

    def _lowered(self, node: IrNode) -> Lowered:
        content = node.content
        if isinstance(content, InputNode):
            return GraphInput(content.name, content.desc)
        if isinstance(content, ConstantNode):
            return self._constant(content)
        operator = node.computation
        owned = {port for port, source in enumerate(node.sources) if source is not None and source.node in self.owned}
        return OperatorDescNode(node.name, own_inputs(operator, owned) if owned else operator)

    def _constant(self, node: ConstantNode) -> GraphInput | ConstantDescNode:
        if node.name in self.bound:
            return GraphInput(node.name, node.desc, node.elements)
        if self.level >= CONSTANT_NODE_LEVEL and node.desc.total_bytes <= CONSTANT_NODE_BYTES:
            return ConstantDescNode(node.name, node.desc, node.desc.pack(node.data).tobytes())
        self.owned.add(node.name)
        return GraphInput(node.name, _owned(node.desc), node.elements)

    def _output(self, name: str, source: Source) -> tuple[Source, TensorDesc]:
        """A graph output: what it reads, from an identity if that is not an operator's, and its description."""
        written, layout = self.ir.desc(*source), self.ir.layouts.get(name)
        if self.ir[source.node].operator is not None:
            return source, layout or written
        read = _owned(written) if source.node in self.owned else written
        copy = Identity(input=read) if self.ir.target.copies_all else copy_of(read, self.level)
        copied = Source(self.free_names.take(f"{name}_identity"), 0)
        self.lowered[copied.node] = OperatorDescNode(copied.node, copy), [source]
        return copied, layout or _kept_as(written, copy.output)


def thawed(graph: GraphDesc) -> IrGraph | None:
    """The IR of a lowered graph, to change it once more.

    Returns None if an edge does not connect an existing tensor to an input of a later node, or an input has no edge.
    """
    free_names = FreeNames()  # in a part of a graph, an input and a node may have the same name
    inputs = [_named(each, free_names.take(each.name)) for each in graph.inputs]
    nodes = [_named(each, free_names.take(each.name)) for each in graph.nodes]
    values = {(-1, slot): Source(given.name, 0) for slot, given in enumerate(inputs)} | {
        (index, port): Source(node.name, port)
        for index, node in enumerate(nodes)
        for port, desc in enumerate(node.output_descs)
        if desc is not None
    }
    read = {(edge.to_node, edge.to_port): values.get((-1, edge.input)) for edge in graph.input_edges} | {
        (edge.to_node, edge.to_port): values.get((edge.from_node, edge.from_port))
        for edge in graph.intermediate_edges
        if edge.from_node < edge.to_node
    }
    sources = [
        [read.pop((index, port), None) for port in range(len(node.input_descs))] for index, node in enumerate(nodes)
    ]
    written = {edge.output: values.get((edge.from_node, edge.from_port)) for edge in graph.output_edges}
    outputs = {slot.name: source for index, slot in enumerate(graph.outputs) if (source := written.pop(index, None))}
    is_whole = all(
        (source is None) == (desc is None)
        for node, each in zip(nodes, sources, strict=True)
        for source, desc in zip(each, node.input_descs, strict=True)
    )
    if not is_whole or read or written or len(outputs) < len(graph.outputs):
        return None
    ir = IrGraph(graph.name, graph.level, input_type=GraphInput)
    for given in inputs:
        ir.insert(given, [])
    for node, each in zip(nodes, sources, strict=True):
        ir.insert(node, each)
    for slot in graph.outputs:
        ir.set_output(slot.name, outputs[slot.name], slot.desc)
    ir.states = graph.states
    ir.is_changed = False
    return ir


def _named(node: _Lowered, name: str) -> _Lowered:
    return node if node.name == name else dataclasses.replace(node, name=name)


def frozen(ir: IrGraph) -> GraphDesc:
    """The GraphDesc of a thawed graph."""
    nodes = ((cast("Lowered", node.content), node.sources) for node in ir.in_order())
    descs = ir.output_descs
    return _frozen(ir, ir.level, nodes, {name: (source, descs[name]) for name, source in ir.outputs.items()})


def _frozen(
    ir: IrGraph,
    level: FeatureLevel,
    nodes: Iterable[tuple[Lowered, Sequence[Source | None]]],
    outputs: Mapping[str, tuple[Source, TensorDesc]],
) -> GraphDesc:
    """The GraphDesc of lowered nodes, which are in execution order, each with its sources."""
    inputs: list[GraphInput] = []
    inner: list[OperatorDescNode | ConstantDescNode] = []
    slots: dict[str, int] = {}  # name → slot of a graph input
    index: dict[str, int] = {}  # name → index of another node
    input_edges: list[InputEdge] = []
    intermediate_edges: list[IntermediateEdge] = []
    for node, sources in nodes:
        if isinstance(node, GraphInput):
            slots[node.name] = len(inputs)
            inputs.append(node)
            continue
        place = index[node.name] = len(inner)
        inner.append(node)
        for port, source in enumerate(sources):
            if source is None:
                continue
            if source.node in slots:
                input_edges.append(InputEdge(slots[source.node], place, port))
            else:
                intermediate_edges.append(IntermediateEdge(index[source.node], source.port, place, port))
    return GraphDesc(
        name=ir.name,
        level=level,
        inputs=tuple(inputs),
        outputs=tuple(GraphOutput(output, desc) for output, (_, desc) in outputs.items()),
        nodes=tuple(inner),
        input_edges=tuple(input_edges),
        output_edges=tuple(
            OutputEdge(index[source.node], source.port, slot) for slot, (source, _) in enumerate(outputs.values())
        ),
        intermediate_edges=tuple(intermediate_edges),
        states=ir.states,
    )


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


def _kept_as(desc: TensorDesc, written: TensorDesc) -> TensorDesc:
    """The description of a tensor's copy: as it is written, or with the tensor's layout if it is copied by words."""
    alike = (written.dtype, written.sizes) == (desc.dtype, desc.sizes)
    return written if alike else desc.like(strides=desc.strides)


def _owned(desc: TensorDesc) -> TensorDesc:
    return TensorDesc(dtype=desc.dtype, sizes=desc.sizes, strides=desc.strides, owned=True)


def own_inputs(operator: Operator, ports: set[int]) -> Operator:
    """The operator with DML_TENSOR_FLAG_OWNED_BY_DML on the input descriptions at these ports."""
    descs = operator.input_descs
    return operator.with_inputs({port: _owned(desc) for port in ports if (desc := descs[port]) is not None})
