"""Finds where two devices differ, or one device with and without fusing: in which outputs, and from which node on.

Intermediate values are made outputs to compare them.  Then a device cannot run several nodes as one, so a difference
may vanish during the search; the result says so.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Generator, Iterator, Mapping
from typing import Any

import numpy as np

from dmlgraph.base.free_names import FreeNames
from dmlgraph.base.memory import enough_memory
from dmlgraph.base.tensor import TensorDesc
from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.ir_node import Source
from dmlgraph.compiler.pipeline import Fused
from dmlgraph.devices import Choice
from dmlgraph.devices.compile import compile_graph, fuse_graph
from dmlgraph.devices.executable import Array
from dmlgraph.graph.graph import Graph
from dmlgraph.graph.nodes import StateNode
from dmlgraph.measure.exposing import batches, run_exposing, values_of
from dmlgraph.measure.ulp import Comparison, Tolerance, compare


@dataclasses.dataclass(frozen=True, slots=True)
class Side:
    """One way to run a graph."""

    device: Choice
    fuse: bool

    def __str__(self) -> str:
        return f"{self.device.name}, {'fused' if self.fuse else 'not fused'}"


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """The first node that differs.

    Attributes:
        node: its name.
        sides: how the two were run to find the node; not fused where that is enough to find it.
        operators: the node's operator on either side, which fusing may have changed.
        value: the value that differs, as a reference in a graph file.
        comparison: of its elements.
        origins: the nodes of the source graph that it was fused from; empty for a source node.
        rules: the fusing rules that made it.
    """

    node: str
    sides: tuple[Side, Side]
    operators: tuple[str, str]
    value: str
    comparison: Comparison
    origins: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """The results of two sides for the same inputs.

    Attributes:
        sides: the two.
        reasons: why each device was chosen.
        outputs: the comparison of each output, and of each state after the step.
        first: the first node that differs; None if the outputs are equal, or no single node differs.
        changed: without such a node, the sides whose outputs change when all values are kept.
        step: the first one in which they differ, counted from 0; else the last.
    """

    sides: tuple[Side, Side]
    reasons: tuple[str, str]
    outputs: Mapping[str, Comparison]
    first: Finding | None = None
    changed: tuple[Side, ...] = ()
    step: int = 0

    @property
    def equal(self) -> bool:
        """Whether all outputs are equal, within the tolerance."""
        return all(comparison.equal for comparison in self.outputs.values())


def diff(
    graph: Graph,
    sides: tuple[Side, Side],
    inputs: Mapping[str, Array],
    tolerance: Tolerance | int = 0,
    *,
    states: Mapping[str, Any] | None = None,
    steps: int = 1,
) -> Difference:
    """Runs a graph on both sides and compares; where the outputs differ, looks for the first node that does.

    Args:
        graph: with its dims resolved.
        sides: what to compare.
        inputs: an array for every input.
        tolerance: what counts as equal; a number means units in the last place.
        states: what states hold before; others hold what they hold at first.
        steps: how often to run; each is compared, until one differs.

    Raises:
        DmlGraphError: as when compiling and running the graph.
    """
    with enough_memory("compare", graph):
        given = _Given(inputs, {} if states is None else states, steps)
        return _diff(graph, sides, given, tolerance)


@dataclasses.dataclass(frozen=True, slots=True)
class _Given:
    """What a graph is run on; `states` by name."""

    inputs: Mapping[str, Array]
    states: Mapping[str, Any]
    steps: int = 1


@dataclasses.dataclass(frozen=True, slots=True)
class _Step:
    """One run: why the device was chosen, what every state held before, and the outputs and states after."""

    reason: str
    before: Mapping[str, Array]
    results: Mapping[str, Array]


def _diff(graph: Graph, sides: tuple[Side, Side], given: _Given, tolerance: Tolerance | int) -> Difference:
    with contextlib.ExitStack() as stack:
        runs = [stack.enter_context(contextlib.closing(_run(graph, side, given))) for side in sides]
        for number, (a, b) in enumerate(zip(*runs, strict=True)):
            compared = {name: compare(value, b.results[name], tolerance) for name, value in a.results.items()}
            found = Difference(sides, (a.reason, b.reason), compared, step=number)
            if not found.equal:
                break
        else:
            return found
    return _with_cause(graph, found, _Given(given.inputs, a.before), (a.results, b.results), tolerance)


def _with_cause(
    graph: Graph,
    found: Difference,
    given: _Given,
    results: tuple[Mapping[str, Array], Mapping[str, Array]],
    tolerance: Tolerance | int,
) -> Difference:
    """A difference in one step, with the first node that differs in it."""
    kept: tuple[dict[str, Array], dict[str, Array]] = ({}, {})
    for pair in _pairs(graph, found.sides):
        first = _first_difference(pair, given, tolerance, kept)
        if first is not None:
            return dataclasses.replace(found, first=first)
    changed = tuple(
        side
        for side, computed, values in zip(found.sides, results, kept, strict=True)
        if any(not compare(computed[name], value).equal for name, value in values.items())
    )
    return dataclasses.replace(found, changed=changed)


def _run(graph: Graph, side: Side, given: _Given) -> Generator[_Step, None, None]:
    """Each step of a side."""
    with compile_graph(graph, side.device, fuse=side.fuse) as executable:
        states = executable.new_states()
        for name, array in given.states.items():
            states[name] = array
        labels = labels_of_states(graph)
        for number in range(given.steps):
            before = {name: states[name] for name in states}
            results = executable.run(given.inputs, states=states)
            after = {label: states[state.name] for label, state in labels.items()}
            if number == given.steps - 1:
                executable.close()  # before the other side needs the memory
            yield _Step(executable.reason, before, results | after)


def labels_of_states(graph: Graph) -> dict[str, StateNode]:
    """The states, whose values after a step are compared as outputs are, by names that no output has."""
    names = FreeNames(graph.outputs)
    return {names.take(f"state {state.name}"): state for state in graph.states}


def inner_values(graph: Graph, side: Side, inputs: Mapping[str, Array]) -> Iterator[tuple[Source, Array]]:
    """What every node of a graph computes in its first run, in execution order; a part of the values is in memory."""
    fused = fuse_graph(graph, side.device.device, fuse=side.fuse).graph
    states: dict[str, Array] = {}
    if graph.states:
        with compile_graph(graph, side.device, fuse=side.fuse) as executable:
            first = executable.new_states()
            states = {name: first[name] for name in first}
    for batch in batches(values_of(fused)):
        arrays = run_exposing(fused, batch, side.device, inputs, states)
        yield from ((source, arrays[fused.reference(*source)]) for source in batch)


@dataclasses.dataclass(frozen=True, slots=True)
class _Pair:
    """A pair of graphs to search for a difference, and their sides."""

    sides: tuple[Side, Side]
    graphs: tuple[Fused, Fused]

    @classmethod
    def of(cls, graph: Graph, sides: tuple[Side, Side]) -> _Pair:
        a, b = (fuse_graph(graph, side.device.device, fuse=side.fuse) for side in sides)
        return cls(sides, (a, b))

    def finding(self, source: Source, value: str, comparison: Comparison) -> Finding:
        """The finding for a value, with what fusing did to its node."""
        a, b = self.graphs
        operators = (_operator(a.graph, source.node), _operator(b.graph, source.node))
        rules = {
            entry.rule: None
            for fused in self.graphs
            for entry in fused.record
            if entry.applied and source.node in entry.added
        }
        merged = {name: None for fused in self.graphs for name in fused.origins.get(source.node, ())}
        origins = tuple(merged) if rules else ()
        return Finding(source.node, self.sides, operators, value, comparison, origins, tuple(rules))


def _pairs(graph: Graph, sides: tuple[Side, Side]) -> Iterator[_Pair]:
    """Where to search: in the graph without fusion, if both sides fuse or both do not; then as the sides run it."""
    a, b = sides
    if a.fuse == b.fuse:
        yield _Pair.of(graph, (Side(a.device, False), Side(b.device, False)))
    if a.fuse or b.fuse:
        yield _Pair.of(graph, sides)


def _first_difference(
    pair: _Pair,
    given: _Given,
    tolerance: Tolerance | int,
    kept: tuple[dict[str, Array], dict[str, Array]],
) -> Finding | None:
    """The first value in execution order that both graphs have and that differs; None if all are equal.

    Puts the values of graph outputs into `kept`.
    """
    a, b = (fused.graph for fused in pair.graphs)
    changing = {state.output for state in a.states}
    outputs = {source: name for name, source in a.outputs.items() if name not in changing}
    for batch in batches(_shared_values(a, b)):
        values = [
            run_exposing(each, batch, side.device, given.inputs, given.states)
            for each, side in zip((a, b), pair.sides, strict=True)
        ]
        for source in batch:
            name = a.reference(*source)
            comparison = compare(values[0][name], values[1][name], tolerance)
            if not comparison.equal:
                return pair.finding(source, name, comparison)
            if source in outputs:
                output = outputs[source]
                for side, ir, arrays in zip(kept, (a, b), values, strict=True):
                    buffer = ir.desc(*source).pack(arrays[name])
                    side[output] = np.array(ir.output_descs[output].unpack(buffer))  # it may have another shape
    return None


def _shared_values(a: IrGraph, b: IrGraph) -> Iterator[tuple[Source, TensorDesc]]:
    """The operator outputs in both graphs, in execution order, with the same name, data type and sizes.

    A node made by fusing has the name of a source node only if it computes the same value.
    """
    others = dict(values_of(b))
    for source, desc in values_of(a):
        other = others.get(source)
        if other is not None and (other.dtype, other.sizes) == (desc.dtype, desc.sizes):
            yield source, desc


def _operator(graph: IrGraph, name: str) -> str:
    return graph[name].computation.name
