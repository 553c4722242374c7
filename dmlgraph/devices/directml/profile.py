"""How long each node of a graph takes on the adapter, compiled and run by itself.

DirectML runs a compiled graph in one dispatch and does not tell its nodes apart.  So each node becomes a graph of one
node, which runs on the values that the nodes before it computed, and the adapter's timestamps around its dispatch give
the time.  What DirectML saves by compiling nodes together is not in these times.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from dmlgraph.compiler.desc import GraphDesc, OperatorDescNode
from dmlgraph.devices.directml.refusal import Source, Wiring, part_of
from dmlgraph.devices.executable import Array, Step, tensor_bytes

HOW = "alone"


class Ran(NamedTuple):
    """What a graph of one node computed: its outputs in slot order, its seconds on the adapter, its dispatches."""

    outputs: Sequence[Array]
    seconds: float
    dispatches: int | None


# Runs a graph of one node on the arrays of its inputs, in slot order.
RunPart = Callable[[GraphDesc, Sequence[Array]], Ran]


def steps(graph: GraphDesc, inputs: Sequence[Array], run: RunPart) -> Iterator[Step]:
    """The steps of a run on the inputs, in slot order; each step starts when the one before it ends."""
    wiring = Wiring(graph)
    values: dict[Source, Array] = {(-1, slot): array for slot, array in enumerate(inputs)}
    readers = collections.Counter((edge.from_node, edge.from_port) for edges in wiring.into.values() for edge in edges)
    start = 0.0
    for index in _execution_order(graph, wiring):
        node = graph.nodes[index]
        assert isinstance(node, OperatorDescNode)
        part = part_of(graph, [index], wiring)
        read = _sources(graph, index, wiring)
        results, seconds, dispatches = run(part, [values[source] for source in read])
        ports = [edge.from_port for edge in sorted(part.output_edges, key=lambda edge: edge.output)]
        values.update({(index, port): result for port, result in zip(ports, results, strict=True)})
        yield Step((node.name,), HOW, start, seconds, tensor_bytes(node.operator), dispatches=dispatches)
        start += seconds
        for edge in wiring.into[index]:
            source = (edge.from_node, edge.from_port)
            readers[source] -= 1
            if not readers[source]:
                values.pop(source, None)


def _execution_order(graph: GraphDesc, wiring: Wiring) -> Iterator[int]:
    """The operators, each after those that it reads."""
    waiting = {
        index: sum(isinstance(graph.nodes[edge.from_node], OperatorDescNode) for edge in wiring.into[index])
        for index, node in enumerate(graph.nodes)
        if isinstance(node, OperatorDescNode)
    }
    ready = collections.deque(index for index, count in waiting.items() if not count)
    while ready:
        index = ready.popleft()
        yield index
        for edge in wiring.out_of[index]:
            waiting[edge.to_node] -= 1
            if not waiting[edge.to_node]:
                ready.append(edge.to_node)


def _sources(graph: GraphDesc, index: int, wiring: Wiring) -> list[Source]:
    """What the inputs of `part_of` for one node are: graph inputs, and values of other operators."""
    found: dict[Source, None] = {(-1, edge.input): None for edge in wiring.inputs[index]}
    for edge in wiring.into[index]:
        if isinstance(graph.nodes[edge.from_node], OperatorDescNode):
            found[edge.from_node, edge.from_port] = None
    return list(found)
