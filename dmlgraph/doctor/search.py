"""The steps of a search on one device: each counts what it runs there."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlgraph.base.errors import DmlGraphError, GraphError
from dmlgraph.compiler.ir_node import IrNode, Source
from dmlgraph.devices import Choice
from dmlgraph.devices.compile import compile_graph, compile_ir, fuse_graph
from dmlgraph.doctor.cut import cut, cut_node
from dmlgraph.doctor.finding import Finding, Kind
from dmlgraph.doctor.judge import RUNS, Judge
from dmlgraph.doctor.measures import Measures
from dmlgraph.doctor.values import (
    Values,
    arguments,
    at_first,
    changed,
    evaluate,
    given,
    in_source,
    on_host,
    operators,
    outputs_of,
    part,
    written,
)
from dmlgraph.measure.exposing import batches, exposing, values_of

if TYPE_CHECKING:
    from dmlgraph.compiler.ir import IrGraph
    from dmlgraph.graph.graph import Graph

Array = np.ndarray[Any, Any]

# The normalised error of an output, in units of the data type's precision, from which on it is one that people notice.
NOTICED = {"float16": 32, "float32": 1024, "float64": 1024}


def most_executions(nodes: int) -> int:
    """How often a search may run something on the device."""
    return math.floor(2 * math.log2(max(nodes, 1))) + 5


@dataclasses.dataclass(frozen=True, slots=True)
class Suspect:
    """A node, or several that run as one, with results that are not those of what it read.

    Attributes:
        names: of the nodes in the fused graph; the last one's results are wrong.
        blamed: the one that is named.
        got: the results on the device.
        expected: those of the reference.
        is_stable: whether runs of it alone agree.
        why: what is known beside that.
    """

    names: tuple[str, ...]
    blamed: str
    got: tuple[Array, ...]
    expected: tuple[Array, ...]
    is_stable: bool = True
    why: str = ""


class Search:
    """A search for what a device computes wrong.

    Args:
        graph: with its dims resolved.
        device: to examine.
        right: a device that is right.
        inputs: an array for every input.
        fuse: as in `Graph.compile`.

    Attributes:
        executions: how often the device ran something.
        values: of the nodes on the device, as far as they are known.
        again: the same of a second run, where one was asked for.
    """

    def __init__(self, graph: Graph, device: Choice, right: Choice, inputs: Mapping[str, Array], *, fuse: bool) -> None:
        self.graph, self.device, self.right, self.fuse = graph, device, right, fuse
        self.inputs = inputs
        self.judge = Judge(device.name)
        self.executions = 0
        self.fused = fuse_graph(graph, device.device, fuse=fuse)
        self.ir: IrGraph = self.fused.graph
        self.given = {**at_first(self.ir), **inputs}
        self.values: Values = {}
        self.again: Values = {}

    # Running.

    def whole(self) -> tuple[dict[str, Array], dict[str, Array]]:
        """The outputs of two runs of the graph as it is."""
        self.executions += 2
        with compile_graph(self.graph, self.device, fuse=self.fuse) as executable:
            results = []
            for _ in range(2):
                found = executable.run(self.inputs, states=executable.new_states())
                results.append({name: np.array(value) for name, value in found.items()})
        return results[0], results[1]

    def _exposing(self, batch: Sequence[Source], runs: int = 1) -> list[Values]:
        """These values on the device, by run."""
        self.executions += runs
        results = []
        with compile_ir(exposing(self.ir, batch), self.device) as executable:
            for _ in range(runs):
                found = executable.run(self.given)
                results.append({source: np.array(found[self.ir.reference(*source)]) for source in batch})
        return results

    def _part(
        self, names: Sequence[str], values: Values, device: Choice, runs: int = 1, copied: Sequence[str] = ()
    ) -> list[tuple[Array, ...]]:
        """The outputs of the last of some nodes, which a device runs on their own."""
        ir, inputs = part(self.ir, names, values, copied)
        with compile_ir(ir, device) as executable:
            results = [executable.run(inputs) for _ in range(runs)]
        order = [self.ir.reference(*source) for source in written(self.ir[names[-1]])]
        return [tuple(np.array(found[name]) for name in order) for found in results]

    def _expected(self, node: IrNode, values: Values) -> tuple[Array, ...]:
        """The outputs of a node for what it reads."""
        if self.right.name == "reference":
            return tuple(evaluate(node, arguments(self.ir, node, values)))
        return self._part([node.name], values, self.right)[0]

    # Looking for a node.

    def first_wrong(self, *, again: bool) -> Suspect | None:
        """The first node, in execution order, whose results are not those of what it read on the device.

        Args:
            again: whether to run each batch of values a second time, for `unstable`.
        """
        self.values = given(self.ir, self.given)
        waiting = operators(self.ir)
        for batch in batches(values_of(self.ir)):
            found, *others = self._exposing(batch, 2 if again else 1)
            self.values |= found
            self.again |= dict(*others)
            while waiting and all(source in self.values for source in written(waiting[0])):
                node = waiting.pop(0)
                got, expected = self._outputs(node), self._expected(node, self.values)
                if self.judge.wrong(node.computation, arguments(self.ir, node, self.values), got, expected):
                    return Suspect((node.name,), node.name, got, expected)
        return None

    def _outputs(self, node: IrNode, values: Values | None = None) -> tuple[Array, ...]:
        known = self.values if values is None else values
        return tuple(known[source] for source in written(node))

    def confirmed(self, suspect: Suspect) -> Suspect:
        """The suspect as it is alone; if it is right then, with the node that it reads too early."""
        name = suspect.names[-1]
        node, read = self.ir[name], arguments(self.ir, self.ir[name], self.values)
        self.executions += 2
        first, second = self._part([name], self.values, self.device, runs=2)
        stable = _is_same(first, second)
        if not stable or any(
            self.judge.wrong(node.computation, read, got, suspect.expected) for got in (first, second)
        ):
            return dataclasses.replace(suspect, is_stable=stable)
        for chain in self._chains(node):
            if self.executions + 3 > most_executions(len(self.ir)):
                break
            (got,) = self._after_others([*chain, name])
            if self.judge.wrong(node.computation, read, got, suspect.expected):
                return self._between(suspect, chain, got)
        return dataclasses.replace(suspect, why="it is right when it runs alone")

    def _after_others(
        self, names: Sequence[str], *, copied: Sequence[str] = (), before: int = 0
    ) -> list[tuple[Array, ...]]:
        """The outputs of the last of some nodes after a run on other inputs, whose results may still be in memory.

        Args:
            names: of the nodes.
            copied: as in `part`.
            before: how many more runs there are before that; their outputs come first.
        """
        ir, inputs = part(self.ir, names, self.values, copied)
        others = {
            name: np.ascontiguousarray(value.ravel()[::-1].reshape(value.shape)) for name, value in inputs.items()
        }
        order = [self.ir.reference(*source) for source in written(self.ir[names[-1]])]
        self.executions += before + 2
        results = []
        with compile_ir(ir, self.device) as executable:
            for arrays in (*[inputs] * before, others, inputs):
                found = executable.run(arrays)
                results.append(tuple(np.array(found[name]) for name in order))
        return [*results[:before], results[-1]]

    def _is_changing(self, names: Sequence[str], copied: Sequence[str] = ()) -> bool:
        """Whether a run on other inputs changes what the last of some nodes computes then."""
        before, after = self._after_others(names, copied=copied, before=1)
        return not _is_same(before, after)

    def _between(self, suspect: Suspect, chain: Sequence[str], got: tuple[Array, ...]) -> Suspect:
        """Whose fault it is that a node is wrong behind another one: its own if it also is behind a copy."""
        name, (first, *others) = suspect.names[-1], chain
        node, read = self.ir[name], arguments(self.ir, self.ir[name], self.values)
        self.executions += 1
        names, why = (*chain, name), f"it is right when it reads an input of the graph, and wrong behind '{first}'"
        with contextlib.suppress(DmlGraphError):
            (copied,) = self._part([*others, name], self.values, self.device, copied=[first])
            if not self.judge.wrong(node.computation, read, copied, suspect.expected):
                why = _too_early(name, first)
                return dataclasses.replace(suspect, names=names, blamed=first, got=got, why=why)
        return dataclasses.replace(suspect, names=names, got=got, why=why)

    def _chains(self, node: IrNode) -> Iterator[list[str]]:
        """What a node reads: each node that computes it, then those behind nodes that only move elements.

        A device may let a node write where such a node would put its elements.
        """
        near = self._producers(node)
        yield from ([each.name] for each in near)
        for each in near:
            if each.computation.only_moves:
                yield from ([before.name, each.name] for before in self._producers(each))

    def _producers(self, node: IrNode) -> list[IrNode]:
        """The nodes that compute what a node reads, in execution order."""
        names = {source.node for source in node.sources if source is not None}
        return [each for each in operators(self.ir) if each.name in names and each.computation.input_fields]

    def unstable(self, first: Mapping[str, Array], second: Mapping[str, Array]) -> Finding:
        """Two runs differ, and every node computed what it should: the first one whose results change.

        Args:
            first, second: the outputs of the two runs.
        """
        changing = [node for node in operators(self.ir) if not _is_same(*self._twice(node))]
        suspect = self._changing(changing[0]) if changing else self._not_yet_written(first, second)
        if suspect is not None:
            return self.accused(suspect, unstable=True)
        why = "two runs of the graph differ, but no node does when the values between the nodes are outputs"
        return Finding(Kind.UNSTABLE, self.device.name, executions=self.executions, why=why)

    def _twice(self, node: IrNode) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        """The outputs of a node in two runs."""
        return self._outputs(node), self._outputs(node, self.again)

    def _changing(self, node: IrNode) -> Suspect:
        """The first node whose results change, or the one that it reads too early."""
        expected, got = self._twice(node)
        suspect = Suspect((node.name,), node.name, got, expected, is_stable=False)
        for chain in self._chains(node):
            if self.executions + 6 > most_executions(len(self.ir)):
                break
            if self._is_changing([*chain, node.name]):
                first, *others = chain
                with contextlib.suppress(DmlGraphError):
                    if not self._is_changing([*others, node.name], copied=[first]):
                        names, why = (*chain, node.name), _too_early(node.name, first)
                        return dataclasses.replace(suspect, names=names, blamed=first, why=why)
                break
        return suspect

    def _not_yet_written(self, first: Mapping[str, Array], second: Mapping[str, Array]) -> Suspect | None:
        """The node that is read too early, where no node changes as long as all values are outputs.

        Args:
            first, second: the outputs of two runs, which differ.
        """
        if self.explains(first) and self.explains(second):
            return self._read_too_early(first, second)
        merged = self.merged()
        if merged is None:
            return None
        single = dataclasses.replace(merged, names=merged.names[-1:])
        return self._between(single, merged.names[:-1], merged.got)

    def _read_too_early(self, first: Mapping[str, Array], second: Mapping[str, Array]) -> Suspect | None:
        """They differ by no more than rounding, but one may have the very bits, and the other one is wrong then."""
        if self.is_exact(first) == self.is_exact(second):
            return None
        wrong, right = (first, second) if self.is_exact(second) else (second, first)
        inner = self._healing(self.is_exact)
        output = next(name for name, value in right.items() if not _is_same([value], [wrong[name]]))
        names = (inner.name, self.ir.outputs[output].node)
        why = f"the results change, but not while '{inner.name}' is an output: something reads it before it is there"
        return Suspect(names, inner.name, (wrong[output],), (right[output],), why=why)

    # Several nodes that run as one.

    @functools.cached_property
    def _near(self) -> list[dict[str, Array]]:
        """The outputs by the nodes' results on the device, and by the reference with every node a little off."""
        runs = [on_host(self.ir, self.given, self.judge, seed) for seed in range(RUNS)]
        return [outputs_of(self.ir, each) for each in (self.values, *runs)]

    def is_exact(self, results: Mapping[str, Array]) -> bool:
        """Whether the outputs are, to the bit, those that the values between the nodes led to."""
        exact = outputs_of(self.ir, self.values)
        return _is_same([results[name] for name in exact], list(exact.values()))

    def explains(self, results: Mapping[str, Array]) -> bool:
        """Whether the outputs are those that the values between the nodes led to, or as near as rounding may be."""
        exact = outputs_of(self.ir, self.values)
        if all(self.judge.is_near(results[name], [value]) for name, value in exact.items()):
            return True
        return all(self.judge.is_near(results[name], [each[name] for each in self._near]) for name in exact)

    def merged(self) -> Suspect | None:
        """The nodes that are wrong when the device runs them as one; None if none are when they run alone."""
        inner = self._healing(self.explains)
        pairs = (self._pair(inner, reader) for reader in self._readers(inner))
        return next((pair for pair in pairs if pair is not None), None)

    def _healing(self, is_right: Callable[[Mapping[str, Array]], bool]) -> IrNode:
        """The node whose value heals the outputs when it is one of them.

        They are right with all values as outputs, and wrong with none: a bisection finds it.
        """
        values = [source for source, _ in values_of(self.ir)]
        ends = list(self.ir.outputs.values())
        wrong, right = 0, len(values)
        while right - wrong > 1:
            middle = (wrong + right) // 2
            (found,) = self._exposing(list(dict.fromkeys([*values[:middle], *ends])))
            if is_right(outputs_of(self.ir, self.values | found)):
                right = middle
            else:
                wrong = middle
        return self.ir[values[right - 1].node]

    def _readers(self, node: IrNode) -> Iterator[IrNode]:
        """The nodes that read what a node computes, in execution order."""
        for each in operators(self.ir):
            if any(source is not None and source.node == node.name for source in each.sources):
                yield each

    def _pair(self, inner: IrNode, reader: IrNode) -> Suspect | None:
        """Two nodes, if they are wrong together."""
        names = (inner.name, reader.name)
        (got,) = self._after_others(names)
        expected = self._outputs(reader)
        runs, bounds = [expected], self.judge.bounds(inner.computation)
        for seed in range(RUNS):
            rng = np.random.default_rng(seed)
            moved = {source: changed(self.values[source], *bounds, rng) for source in written(inner)}
            runs.append(tuple(evaluate(reader, arguments(self.ir, reader, self.values | moved))))
        through = (reader.computation,)
        if all(self.judge.is_near(a, list(b), through) for a, *b in zip(got, *runs, strict=True)):
            return None
        why = "each is right alone: the device runs them as one"
        return Suspect(names, reader.name, got, expected, why=why)

    # Saying what was found.

    def accused(self, suspect: Suspect, *, unstable: bool) -> Finding:
        """The finding for a suspect."""
        pairs = list(zip(suspect.got, suspect.expected, strict=True))
        measured = [Measures.of(got, expected) for got, expected in pairs]
        worst = max(measured, key=lambda each: (each.ulp is None, each.ulp or 0))
        kind = Kind.UNSTABLE if unstable or not suspect.is_stable else Kind.FAULT
        if kind is Kind.FAULT and worst.not_finite:
            kind = Kind.NOT_FINITE
        origins = self._origins(suspect.names)
        alone = len(origins) == 1
        rules = {
            entry.rule: None
            for entry in self.fused.record
            if entry.applied and not set(entry.added).isdisjoint(suspect.names)
        }
        return Finding(
            kind,
            self.device.name,
            node=suspect.blamed,
            group=() if alone else origins,
            inputs=self._inputs(origins),
            got=suspect.got,
            expected=suspect.expected,
            executions=self.executions,
            measures=worst,
            why=suspect.why,
            rules=tuple(rules) if not alone else (),
        )

    def _origins(self, names: Sequence[str]) -> tuple[str, ...]:
        """The nodes of the source graph that went into nodes of the fused one, in execution order."""
        found = {origin for name in names for origin in self.fused.origins.get(name, (name,))}
        chosen = [node.name for node in self.graph.nodes if node.name in found]
        computing = [name for name in chosen if self.graph.sources(name)]
        return tuple(computing or chosen or names)

    def _inputs(self, names: Sequence[str]) -> dict[str, Array]:
        """What nodes of the source graph read: of one by field, of several by reference."""
        known = {(each.node, each.port): self.values[each] for each in self.values if self._is_in_source(each)}
        with contextlib.suppress(KeyError):
            values = _InSource(self.graph, known)
            if len(names) == 1:
                return cut_node(self.graph, names[0], values)[1]
            return {node.name: values[node.name] for node in cut(self.graph, names).inputs}
        return {}

    def _is_in_source(self, source: Source) -> bool:
        """Whether the source graph has a value of this name, with the same sizes."""
        with contextlib.suppress(GraphError):
            return self.graph.desc(*source).sizes == self.ir.desc(*source).sizes
        return False

    def measured(self, results: Mapping[str, Array]) -> dict[str, Measures]:
        """The outputs against those that the reference makes of the inputs."""
        return {name: Measures.of(results[name], value) for name, value in self._right_outputs.items()}

    @functools.cached_property
    def _right(self) -> Values:
        return on_host(self.ir, self.given)

    @property
    def _right_outputs(self) -> dict[str, Array]:
        return outputs_of(self.ir, self._right)

    def is_near(self, results: Mapping[str, Array]) -> bool:
        """Whether the outputs are so near to the reference's that nobody asks why."""
        return all(_is_small(Measures.of(results[name], value), value) for name, value in self._right_outputs.items())

    def growth(self) -> str:
        """Where small differences grow most, in a sentence."""
        most, where = 1.0, ""
        for node in operators(self.ir):
            before = max((self._error(source) for source in node.sources if source is not None), default=0.0)
            after = max(map(self._error, written(node)))
            if 0 < before < np.inf and after / before > most:
                most, where = after / before, node.name
        times = "to something where nothing should be" if np.isinf(most) else f"{most:.3g} times"
        return f"small differences grow most in '{where}': {times}" if where else ""

    def _error(self, source: Source) -> float:
        value = self._right[source]
        if value.dtype.kind != "f":
            return 0.0
        return Measures.of(self.values[source], value).normalised


def _is_same(one: Sequence[Array], other: Sequence[Array]) -> bool:
    """Whether arrays have the same bits."""
    return all(a.tobytes() == b.tobytes() for a, b in zip(one, other, strict=True))


def _too_early(reader: str, writer: str) -> str:
    return f"'{reader}' reads what '{writer}' writes before it is there; both are right alone"


def _is_small(measures: Measures, expected: Array) -> bool:
    """Whether a difference is one that rounding makes in a graph of ordinary depth."""
    if expected.dtype.kind != "f":
        return not measures.differing
    return (
        not measures.not_finite and measures.normalised <= NOTICED[expected.dtype.name] * np.finfo(expected.dtype).eps
    )


class _InSource(Mapping[str, Array]):
    """Values of a source graph by reference, computed when they are asked for."""

    def __init__(self, graph: Graph, known: dict[tuple[str, int], Array]) -> None:
        self._graph, self._known = graph, known

    def __getitem__(self, reference: str) -> Array:
        value = self._graph.value(reference)
        output = (value.node, value.port)
        return in_source(self._graph, [output], self._known)[output]

    def __contains__(self, reference: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return len(self._known)
