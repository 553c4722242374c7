"""Finds the nodes that DirectML refuses: CompileGraph returns one HRESULT for the whole graph, and names no node.

The search compiles parts of the graph to find the smallest part that is refused by itself: every operator alone, then
connected parts, from which nodes are removed as long as the rest is still refused (delta debugging).  A cut edge
becomes an input or an output of the part.  This happens only after a refusal, on a separate device, and within limits.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import itertools
import time
from collections.abc import Callable, Collection, Iterator

from dmlgraph.base.errors import Problem, listing
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
from dmlgraph.devices.directml.errors import DirectMLError

MAX_COMPILATIONS = 512
MAX_SINGLES = 256  # compilations of a single operator; equal operators are compiled once
MAX_SECONDS = 20.0  # no compilation starts after this time
MAX_NAMED = 16  # nodes in a message

Part = frozenset[int]  # operator nodes of a graph
Source = tuple[int, int]  # a node and its output port, or −1 and a graph input


@dataclasses.dataclass(frozen=True, slots=True)
class Refusal:
    """The part of a graph that is refused.

    Attributes:
        nodes: the operator nodes that are refused together, in execution order; all nodes if no smaller part was
            found.
        is_smallest: whether every part with one node less was compiled and accepted; False if a limit was reached.
        compilations: how many compilations the search took.
    """

    nodes: tuple[OperatorDescNode, ...]
    is_smallest: bool
    compilations: int


class _BoundReached(Exception):  # noqa: N818 - an answer
    """The search has reached its limit of compilations or time."""


def find(
    graph: GraphDesc,
    refuses: Callable[[GraphDesc], bool],
    *,
    compilations: int = MAX_COMPILATIONS,
    seconds: float = MAX_SECONDS,
) -> Refusal:
    """The smallest part of a refused graph that is refused by itself.

    `refuses` compiles a graph and returns whether it is refused.  An exception that it raises ends the search.
    """
    return _Search(graph, refuses, compilations, seconds).run()


class Wiring:
    """The edges of a graph by node, so that the time to make a part depends on the part's size only."""

    def __init__(self, graph: GraphDesc) -> None:
        self.inputs: dict[int, list[InputEdge]] = collections.defaultdict(list)
        self.into: dict[int, list[IntermediateEdge]] = collections.defaultdict(list)
        self.out_of: dict[int, list[IntermediateEdge]] = collections.defaultdict(list)
        self.outputs: dict[int, list[OutputEdge]] = collections.defaultdict(list)
        for edge in graph.input_edges:
            self.inputs[edge.to_node].append(edge)
        for inner in graph.intermediate_edges:
            self.into[inner.to_node].append(inner)
            self.out_of[inner.from_node].append(inner)
        for last in graph.output_edges:
            self.outputs[last.from_node].append(last)


def part_of(graph: GraphDesc, nodes: Collection[int], wiring: Wiring | None = None) -> GraphDesc:
    """A graph of some operators of a graph, with the constant nodes that they read.

    Values from other operators become inputs, one for each value; values that other operators read become outputs.
    """
    wiring = wiring or Wiring(graph)
    chosen = sorted(nodes)
    constants = {
        edge.from_node
        for node in chosen
        for edge in wiring.into[node]
        if isinstance(graph.nodes[edge.from_node], ConstantDescNode)
    }
    kept = sorted({*chosen, *constants})
    index = {node: place for place, node in enumerate(kept)}
    slots: dict[Source, int] = {}
    inputs: list[GraphInput] = []
    input_edges: list[InputEdge] = []
    intermediate: list[IntermediateEdge] = []

    def read(source: Source, given: GraphInput, node: int, port: int) -> None:
        if source not in slots:
            slots[source] = len(inputs)
            inputs.append(given)
        input_edges.append(InputEdge(slots[source], index[node], port))

    for node in chosen:
        for edge in wiring.inputs[node]:
            read((-1, edge.input), graph.inputs[edge.input], node, edge.to_port)
        for inner in wiring.into[node]:
            source = (inner.from_node, inner.from_port)
            if inner.from_node in index:
                intermediate.append(
                    IntermediateEdge(index[inner.from_node], inner.from_port, index[node], inner.to_port)
                )
            else:
                output = _output(graph, source)
                read(source, GraphInput(output.name, output.desc), node, inner.to_port)
    outputs = _outputs_of(graph, chosen, wiring)
    return GraphDesc(
        name=graph.name,
        level=graph.level,
        inputs=tuple(inputs),
        outputs=tuple(outputs.values()),
        nodes=tuple(graph.nodes[node] for node in kept),
        input_edges=tuple(input_edges),
        output_edges=tuple(OutputEdge(index[node], port, slot) for slot, (node, port) in enumerate(outputs)),
        intermediate_edges=tuple(intermediate),
    )


def _outputs_of(graph: GraphDesc, nodes: Collection[int], wiring: Wiring) -> dict[Source, GraphOutput]:
    """The values that some operators write for the rest of a graph or for its outputs."""
    outputs: dict[Source, GraphOutput] = {}
    inside = frozenset(nodes)
    for node in nodes:
        for last in wiring.outputs[node]:
            outputs.setdefault((node, last.from_port), graph.outputs[last.output])
        for inner in wiring.out_of[node]:
            if inner.to_node not in inside:
                source = (node, inner.from_port)
                outputs.setdefault(source, _output(graph, source))
    return outputs


def _output(graph: GraphDesc, source: Source) -> GraphOutput:
    """A value between nodes as a graph output."""
    node = graph.nodes[source[0]]
    assert isinstance(node, OperatorDescNode), "constants are in the part of their readers"
    desc = node.operator.output_descs[source[1]]
    assert desc is not None, "an edge starts at an existing output"
    return GraphOutput(f"{node.name}.{source[1]}", desc)


class _Search:
    """One search: the results so far, and the compilations and time left."""

    def __init__(
        self, graph: GraphDesc, refuses: Callable[[GraphDesc], bool], compilations: int, seconds: float
    ) -> None:
        self._graph, self._refuses = graph, refuses
        self._left, self._end = compilations, time.monotonic() + seconds
        self._done = 0
        self._known: dict[Part, bool] = {}
        self._wiring = Wiring(graph)

    def run(self) -> Refusal:
        everything = frozenset(
            index for index, node in enumerate(self._graph.nodes) if isinstance(node, OperatorDescNode)
        )
        self._known[everything] = True
        self._smallest = everything
        is_smallest = False
        with contextlib.suppress(_BoundReached):
            # If only parts that share no value are refused together, there is no smaller part to name.
            if self._find_single(everything) or self._any_refused(everything):
                self._shrink()
                is_smallest = True
        nodes = tuple(self._graph.nodes[index] for index in sorted(self._smallest))
        return Refusal(tuple(n for n in nodes if isinstance(n, OperatorDescNode)), is_smallest, self._done)

    def _find_single(self, nodes: Part) -> bool:
        """Looks for an operator that is refused alone."""
        seen: set[str] = set()
        for index in sorted(nodes):
            likeness = _likeness(part_of(self._graph, [index], self._wiring))
            if likeness in seen:
                self._known[frozenset([index])] = False
                continue
            seen.add(likeness)
            if self._is_refused(frozenset([index])):
                return True
            if len(seen) == MAX_SINGLES:
                break
        return False

    def _shrink(self) -> None:
        """Removes smaller and smaller pieces of the refused part, until no node can be removed."""
        pieces = 2
        while len(self._smallest) > 1:
            order = sorted(self._smallest)
            pieces = min(pieces, len(order))
            cuts = [len(order) * place // pieces for place in range(pieces + 1)]
            chunks = [frozenset(order[begin:end]) for begin, end in itertools.pairwise(cuts)]
            rests = [self._smallest - chunk for chunk in chunks] if pieces > 2 else []
            if any(self._any_refused(candidate) for candidate in (*chunks, *rests)):
                pieces = 2 if len(self._smallest) <= len(order) // 2 else max(pieces - 1, 2)
            elif pieces == len(order):
                return
            else:
                pieces = min(2 * pieces, len(order))

    def _any_refused(self, nodes: Part) -> bool:
        """Whether a connected part of the nodes is refused; it then becomes the smallest part."""
        parts = sorted(self._connected(nodes), key=len)
        return any(self._is_refused(part) for part in parts)

    def _is_refused(self, part: Part) -> bool:
        if part not in self._known:
            if self._left <= 0 or time.monotonic() > self._end:
                raise _BoundReached
            self._left -= 1
            self._done += 1
            self._known[part] = self._refuses(part_of(self._graph, part, self._wiring))
        if self._known[part]:
            self._smallest = part
        return self._known[part]

    def _connected(self, nodes: Part) -> Iterator[Part]:
        """The nodes in parts that share no value: nodes are connected by an edge, or by a value that both read."""
        readers: dict[Source, list[int]] = collections.defaultdict(list)
        for node in nodes:
            for edge in self._wiring.inputs[node]:
                readers[-1, edge.input].append(node)
            for inner in self._wiring.into[node]:
                readers[inner.from_node, inner.from_port].append(node)
        links: dict[int, set[int]] = collections.defaultdict(set)
        for (producer, _), group in readers.items():
            if producer in nodes:
                group.append(producer)
            for one, other in itertools.pairwise(group):
                links[one].add(other)
                links[other].add(one)
        left = set(nodes)
        while left:
            found, waiting = set(), [left.pop()]
            while waiting:
                node = waiting.pop()
                found.add(node)
                waiting += links[node] & left
                left -= links[node]
            yield frozenset(found)


def _likeness(part: GraphDesc) -> str:
    """The text of a part without its names: parts with the same text are accepted or refused alike."""
    unnamed = dataclasses.replace(
        part,
        name="",
        inputs=tuple(dataclasses.replace(each, name="", elements=None) for each in part.inputs),
        outputs=tuple(dataclasses.replace(each, name="") for each in part.outputs),
        nodes=tuple(dataclasses.replace(each, name="") for each in part.nodes),
    )
    return str(unnamed)


def explained(error: DirectMLError, refusal: Refusal) -> DirectMLError:
    """The error of CompileGraph with the refused nodes: one problem for all, and if there are several, one for each."""
    first, nodes = error.problems[0], refusal.nodes
    failed, *messages = first.message.splitlines()
    if len(nodes) == 1:
        (node,) = nodes
        main = Problem(f"{failed}: DirectML refuses this {node.operator.dml} by itself", code="refused", node=node.name)
        problems = [main]
    else:
        names = listing((f"'{node.name}'" for node in nodes), MAX_NAMED)
        found = (
            f"DirectML refuses {names} together, but no smaller part of them"
            if refusal.is_smallest
            else f"DirectML refuses a part of {names}: {refusal.compilations} compilations did not find a smaller part"
        )
        main = Problem(f"{failed}: {found}", code="refused")
        problems = [
            main,
            *(
                Problem(f"one of the refused nodes: {node.operator.dml}", code="refused", node=node.name)
                for node in nodes[:MAX_NAMED]
            ),
        ]
    problems[0] = dataclasses.replace(main, message="\n".join([main.message, *messages]), hint=first.hint)
    other = error.with_problems(problems)
    other.nodes = tuple(node.name for node in nodes)
    return other
