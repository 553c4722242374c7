"""Cuts: some nodes of a graph as a graph of their own, whose inputs are the values that they read.

    part = cut(graph, ["conv_1", "relu_1"])  # its inputs and outputs have the names of references in `graph`
    part, inputs = cut_node(graph, "conv_1", values)

This is for what a device runs apart: the nodes are given, and what they read is an input, also where it is a state.
`Graph.cut` is for a part that people go on with: its ends are given, all nodes between them belong to it, and
its states and constants stay.

Constants and fills of one number stay what they are, because devices treat them as such.  Devices do not compute views,
but a view says how a node reads a value: the nodes of a cut keep the views through which they read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

from dmlgraph.base.errors import GraphError
from dmlgraph.graph.graph import Graph
from dmlgraph.graph.network import Output
from dmlgraph.graph.nodes import ConstantNode, InputNode, Node, OperatorNode, is_view
from dmlgraph.graph.value import Value
from dmlgraph.operators.declaration.fields import Role
from dmlgraph.operators.fill import FillValueConstant

Array = np.ndarray[Any, Any]


def cut(graph: Graph, nodes: Collection[str]) -> Graph:
    """These nodes alone: what others compute becomes an input, what others or the caller read an output.

    Args:
        graph: with its dims resolved.
        nodes: names of operators.

    Raises:
        GraphError: a name is not that of an operator.
    """
    return _Cut(graph, nodes).make({})


def cut_node(graph: Graph, node: str, values: Mapping[str, Array]) -> tuple[Graph, dict[str, Array]]:
    """A node alone, and the arrays for the inputs of that graph, which have the names of the node's fields.

    Args:
        graph: with its dims resolved.
        node: the name of an operator.
        values: by reference: at least what the node reads that is neither a constant nor a fill; where it reads a
            view, what is viewed.

    Raises:
        GraphError: the node is not an operator, or a value is missing.
    """
    of_node = _Cut(graph, [node])
    fields: dict[Output, str] = {}
    for field, source in of_node.read_by_fields(node):
        fields.setdefault(source, field)
    part = of_node.make(fields)
    names = {each.name for each in part.inputs}
    inputs = {}
    for source, field in fields.items():
        if field in names:
            reference = graph.reference(*source)
            if reference not in values:
                raise GraphError("has no value", code="missing-input", node=reference, hint=f"'{node}' reads it")
            inputs[field] = values[reference]
    return part, inputs


class _Cut:
    """The nodes of a cut with the views and the sources that they need."""

    def __init__(self, graph: Graph, nodes: Collection[str]) -> None:
        self.graph, self.asked = graph, frozenset(nodes)
        for name in nodes:
            if not isinstance(graph.node(name), OperatorNode):
                raise GraphError("is not an operator of the graph", code="unknown-node", node=name)
        self.kept = set(nodes)
        for name in nodes:
            for source in graph.sources(name):
                self._keep(source)

    def _keep(self, source: Output | None) -> None:
        """Keeps the producer of a value, where it is a view, a constant or a fill of one number."""
        while source is not None and source[0] not in self.kept:
            node = self.graph.node(source[0])
            if not _stays(node):
                return
            self.kept.add(node.name)
            (source,) = self.graph.sources(node.name) or (None,)

    def read_by_fields(self, node: str) -> Iterator[tuple[str, Output]]:
        """What a node reads from outside the cut, by its fields; behind views what they view."""
        operator = self.graph.node(node)
        assert isinstance(operator, OperatorNode)
        by_port = dict(enumerate(self.graph.sources(node)))
        for field, found in operator.operator.by_field(Role.INPUT, by_port).items():
            sources = found if isinstance(found, list) else [found]
            for index, each in enumerate(sources):
                source = self._viewed(each)
                if source is not None and source[0] not in self.kept:
                    yield (f"{field}.{index}" if isinstance(found, list) else field), source

    def _viewed(self, source: Output | None) -> Output | None:
        """What a value is a view of, through views that the cut keeps."""
        while source is not None and source[0] in self.kept:
            node = self.graph.node(source[0])
            if not is_view(node):
                break
            (source,) = self.graph.sources(source[0])
        return source

    def make(self, names: Mapping[Output, str]) -> Graph:
        """The graph of the cut.

        Args:
            names: of its inputs, by what they stand for; by default the references.
        """
        part = self._made(names, self.graph.dims)
        unused = {str(problem.field) for problem in part.warnings() if problem.code == "unused-dim"}
        if not unused:
            return part
        return self._made(names, {dim: size for dim, size in self.graph.dims.items() if f"dims.{dim}" not in unused})

    def _made(self, names: Mapping[Output, str], dims: Mapping[str, int]) -> Graph:
        graph = self.graph
        part = Graph(graph.name, target=graph.target, dims=dims)
        values: dict[Output, Value] = {}
        for node in graph.nodes:
            if node.name not in self.kept:
                continue
            if isinstance(node, ConstantNode):
                values[node.name, 0] = part.constant(node.name, node.data)
                continue
            assert isinstance(node, OperatorNode)
            sources = graph.sources(node.name)
            for source in sources:
                if source is not None and source not in values:
                    values[source] = self._input(part, source, names.get(source) or graph.reference(*source))
            bound = {port: source and values[source] for port, source in enumerate(sources)}
            tensors = node.operator.by_field(Role.INPUT, bound)
            made = part.add(type(node.operator), tensors, node.attributes, node.outputs, node.name)
            values |= {(node.name, port): value for port, value in enumerate(made) if value is not None}
        for source in self._ends():
            part.output(graph.reference(*source), values[source])
        return part

    def _input(self, part: Graph, source: Output, name: str) -> Value:
        """An input in the place of what is computed outside."""
        node, desc = self.graph.node(source[0]), self.graph.desc(*source)
        owned = isinstance(node, InputNode) and node.desc.owned
        return part.input(name, dtype=desc.dtype, sizes=desc.sizes, strides=desc.strides, owned=owned)

    def _ends(self) -> Iterator[Output]:
        """The values of the nodes asked for that something else reads, or the caller, or nothing, in order."""
        graph = self.graph
        outside = {(value.node, value.port) for value in (*graph.outputs.values(), *graph.next_values.values())}
        inside = set[Output]()
        for node in graph.nodes:
            (inside if node.name in self.asked else outside).update(each for each in graph.sources(node.name) if each)
        for node in graph.nodes:
            if node.name in self.asked and isinstance(node, OperatorNode):
                for port, desc in enumerate(node.operator.output_descs):
                    if desc is not None and ((node.name, port) in outside or (node.name, port) not in inside):
                        yield node.name, port


def _stays(node: Node) -> bool:
    """Whether the readers of a node keep it in a cut."""
    if isinstance(node, ConstantNode):
        return True
    return is_view(node) or (isinstance(node, OperatorNode) and isinstance(node.operator, FillValueConstant))
