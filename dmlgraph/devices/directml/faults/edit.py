"""DescEdit: a GraphDesc being changed, with its edges as a map from each reader to what it reads."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Iterator, Set
from typing import NamedTuple

from dmlgraph.base.tensor import TensorDesc
from dmlgraph.compiler.lowering import (
    ConstantDescNode,
    GraphDesc,
    GraphInput,
    InputEdge,
    IntermediateEdge,
    OperatorDescNode,
    OutputEdge,
)
from dmlgraph.operators.declaration.operator import Operator

END = -1  # where nodes are added that run after all others


class Value(NamedTuple):
    """A tensor of the graph: output `port` of a node, or graph input `port` where `node` is None."""

    node: int | None
    port: int

    @property
    def producer(self) -> int:
        """The node; LookupError for a graph input."""
        if self.node is None:
            raise LookupError(f"graph input {self.port} has no producer")
        return self.node


class Port(NamedTuple):
    """An input of a node."""

    node: int
    port: int


class DescEdit:
    """A graph being changed.  Indices of nodes stay as they are until `finish`.

    Attributes:
        nodes: by index; added nodes come last, and `finish` puts all nodes in execution order.
        sources: what each input of each node reads.
        outputs: what each graph output reads, by slot.
        added: the indices of the added nodes that cost a dispatch.
    """

    def __init__(self, graph: GraphDesc) -> None:
        self._graph = graph
        self.inputs = list(graph.inputs)
        self.nodes = list(graph.nodes)
        self.sources: dict[Port, Value] = {}
        for edge in graph.input_edges:
            self.sources[Port(edge.to_node, edge.to_port)] = Value(None, edge.input)
        for inner in graph.intermediate_edges:
            self.sources[Port(inner.to_node, inner.to_port)] = Value(inner.from_node, inner.from_port)
        self.outputs = {edge.output: Value(edge.from_node, edge.from_port) for edge in graph.output_edges}
        self._output_slots = list(graph.outputs)
        self.added: list[int] = []
        self._before: dict[int, list[int]] = collections.defaultdict(list)  # added nodes, by the node they run before
        self._changed = False

    def operator(self, node: int | None) -> Operator | None:
        """A node's operator; None for a constant or a graph input."""
        found = None if node is None else self.nodes[node]
        return found.operator if isinstance(found, OperatorDescNode) else None

    def desc(self, value: Value) -> TensorDesc:
        """A tensor's desc in its producer."""
        if value.node is None:
            return self.inputs[value.port].desc
        node = self.nodes[value.node]
        found = node.desc if isinstance(node, ConstantDescNode) else node.operator.output_descs[value.port]
        if found is None:
            raise LookupError(f"'{node.name}' is without output {value.port}")
        return found

    def output_desc(self, slot: int) -> TensorDesc:
        """A graph output's desc, which may have other sizes than its producer's."""
        return self._output_slots[slot].desc

    def read_desc(self, reader: Port) -> TensorDesc | None:
        """The desc of an input in its node; None if the node does not have this input."""
        operator = self.operator(reader.node)
        descs = () if operator is None else operator.input_descs
        return descs[reader.port] if reader.port < len(descs) else None

    def needed_desc(self, reader: Port) -> TensorDesc:
        """The desc of an input that the node has; else LookupError."""
        desc = self.read_desc(reader)
        if desc is None:
            raise LookupError(f"'{self.nodes[reader.node].name}' is without input {reader.port}")
        return desc

    def is_whole(self) -> bool:
        """Whether every edge connects an existing tensor to an existing input, and every input has an edge."""
        described = {
            Port(index, port)
            for index in range(len(self.nodes))
            if (operator := self.operator(index)) is not None
            for port, desc in enumerate(operator.input_descs)
            if desc is not None
        }
        return described == set(self.sources) and all(
            self._exists(value) for value in (*self.sources.values(), *self.outputs.values())
        )

    def _exists(self, value: Value) -> bool:
        if value.node is None or value.node >= len(self.nodes):
            return value.node is None and value.port < len(self.inputs)
        operator = self.operator(value.node)
        descs = operator.output_descs if operator is not None else (self.desc(Value(value.node, 0)),)
        return value.port < len(descs) and descs[value.port] is not None

    def replace(self, node: int, operator: Operator) -> None:
        """Replaces a node's operator by one with the same inputs and outputs."""
        self.nodes[node] = OperatorDescNode(self.nodes[node].name, operator)
        self._changed = True

    def read(self, reader: Port, value: Value) -> None:
        """Makes an input of a node read another value."""
        self.sources[reader] = value
        self._changed = True

    def insert(
        self, name: str, operator: Operator, reader: Port, *others: Value, costs_a_dispatch: bool = True
    ) -> None:
        """Inserts an operator of one output between an input of a node and the value it reads.

        Args:
            others: what the operator's inputs after the first read.
            costs_a_dispatch: whether DirectML runs it, and did not do the same before.
        """
        index = self._add(name, operator, self.sources[reader], *others, costs_a_dispatch=costs_a_dispatch)
        self._before[reader.node].append(index)
        self.sources[reader] = Value(index, 0)

    def insert_after(self, name: str, operator: Operator, value: Value) -> None:
        """Inserts an operator of one input and one output between a node's output and all its readers."""
        producer = value.producer
        readers = [reader for reader, read in self.sources.items() if read == value]
        slots = [slot for slot, read in self.outputs.items() if read == value]
        index = self._add(name, operator, value)
        self._before[producer + 1 if producer + 1 < len(self._graph.nodes) else END].append(index)
        self.sources.update(dict.fromkeys(readers, Value(index, 0)))
        self.outputs.update(dict.fromkeys(slots, Value(index, 0)))

    def insert_before_output(self, name: str, operator: Operator, slot: int) -> None:
        """Inserts an operator of one input and one output between a graph output and the value it reads."""
        index = self._add(name, operator, self.outputs[slot])
        self._before[END].append(index)
        self.outputs[slot] = Value(index, 0)
        self._output_slots[slot] = dataclasses.replace(self._output_slots[slot], desc=self.desc(Value(index, 0)))

    def _add(self, name: str, operator: Operator, *sources: Value, costs_a_dispatch: bool = True) -> int:
        index = len(self.nodes)
        self.nodes.append(OperatorDescNode(name, operator))
        self.sources |= {Port(index, port): source for port, source in enumerate(sources)}
        if costs_a_dispatch:
            self.added.append(index)
        self._changed = True
        return index

    def become_input(self, node: int, given: GraphInput) -> None:
        """Replaces a node of one output by a new graph input; no graph output may read it."""
        slot = len(self.inputs)
        self.inputs.append(given)
        for reader, value in self.sources.items():
            if value.node == node:
                self.sources[reader] = Value(None, slot)
        self._changed = True

    def run_before(self, node: int, others: Set[int | None]) -> bool:
        """Whether a node depends on all the other nodes; None stands for a graph output, which no node depends on."""
        known = {other for other in others if other is not None}
        if None in others or any(node < other < len(self._graph.nodes) for other in known):
            return False  # nodes are in execution order, except the added ones
        return not known or known <= self._ancestors([node], known)

    def _ancestors(self, nodes: Iterable[int], known: Set[int] = frozenset()) -> set[int]:
        """The nodes that some nodes depend on; with `known`, at least those of them that are in `known`."""
        first = min(known, default=0)  # earlier nodes in execution order do not depend on them
        found: set[int] = set()
        rest = list(nodes)
        while rest:
            node = rest.pop()
            operator = self.operator(node)
            for port in range(len(operator.input_descs) if operator is not None else 0):
                value = self.sources.get(Port(node, port))
                if value is not None and value.node is not None and value.node >= first and value.node not in found:
                    found.add(value.node)
                    rest.append(value.node)
        return found

    def _with_added(self, node: int) -> Iterator[int]:
        """A node after the added nodes that run before it."""
        for before in self._before[node]:
            yield from self._with_added(before)
        yield node

    def finish(self) -> GraphDesc:
        """The graph after the changes, without nodes that no output depends on; the same object if nothing changed."""
        if not self._changed:
            return self._graph
        count = len(self._graph.nodes)
        order = [each for index in range(count) for each in self._with_added(index)]
        order += [each for index in self._before[END] for each in self._with_added(index)]
        ends = [value.node for value in self.outputs.values() if value.node is not None]
        live = self._ancestors(ends) | set(ends)
        order = [index for index in order if index in live]
        place = {index: new for new, index in enumerate(order)}
        edges = sorted(
            (Port(place[reader.node], reader.port), value)
            for reader, value in self.sources.items()
            if reader.node in place
        )
        return dataclasses.replace(
            self._graph,
            inputs=tuple(self.inputs),
            outputs=tuple(self._output_slots),
            nodes=tuple(self.nodes[index] for index in order),
            input_edges=tuple(InputEdge(value.port, *reader) for reader, value in edges if value.node is None),
            output_edges=tuple(
                OutputEdge(place[value.node], value.port, slot)
                for slot, value in self.outputs.items()
                if value.node is not None
            ),
            intermediate_edges=tuple(
                IntermediateEdge(place[value.node], value.port, *reader)
                for reader, value in edges
                if value.node is not None
            ),
        )
