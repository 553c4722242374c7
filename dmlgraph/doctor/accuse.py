"""What is found, said of the source graph: its nodes, what they read, and the rules that fused them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlgraph.base.errors import GraphError
from dmlgraph.doctor.cut import cut, cut_node
from dmlgraph.doctor.finding import Finding, Kind
from dmlgraph.doctor.measures import Measures
from dmlgraph.doctor.runs import Runs, Suspect
from dmlgraph.doctor.together import Vanished
from dmlgraph.doctor.values import in_source

if TYPE_CHECKING:
    from dmlgraph.compiler.ir_node import Source
    from dmlgraph.graph.graph import Graph

Array = np.ndarray[Any, Any]

CAUSE = "a fusion, or memory that values share, is the likely cause"


def accused(runs: Runs, suspect: Suspect, *, unstable: bool) -> Finding:
    """The finding for a suspect."""
    pairs = list(zip(suspect.got, suspect.expected, strict=True))
    measured = [Measures.of(got, expected) for got, expected in pairs]
    worst = max(measured, key=lambda each: (each.ulp is None, each.ulp or 0))
    kind = Kind.UNSTABLE if unstable or not suspect.is_stable else Kind.FAULT
    if kind is Kind.FAULT and worst.not_finite:
        kind = Kind.NOT_FINITE
    origins = _origins(runs, suspect.names)
    alone = len(origins) == 1
    return Finding(
        kind,
        runs.device.name,
        node=suspect.blamed,
        group=() if alone else origins,
        inputs=_inputs(runs, origins),
        got=suspect.got,
        expected=suspect.expected,
        executions=runs.executions,
        measures=worst,
        why=suspect.why,
        rules=() if alone else _rules(runs, suspect.names),
    )


def vanished(runs: Runs, found: Vanished, kind: Kind, outputs: Mapping[str, Measures]) -> Finding:
    """The finding for a fault that is gone when values between the nodes are outputs.

    Args:
        runs: of the graph.
        found: where it is.
        kind: of the fault: that the results are wrong, or that they change.
        outputs: of the whole graph, measured.
    """
    if not found.names:
        why = "the results depend on what memory held before: something reads it before it is written"
        return Finding(Kind.UNSTABLE, runs.device.name, executions=runs.executions, outputs=outputs, why=why)
    names = (*found.names, *([found.reader] if found.reader else []))
    first, last = found.names[0], names[-1]
    healed = f"the outputs are right once what '{first}' computes is an output, too"
    why = f"{healed}\n{CAUSE}" + (f", across '{first}' … '{last}'" if first != last else "")
    return Finding(
        kind,
        runs.device.name,
        group=_origins(runs, names),
        executions=runs.executions,
        outputs=outputs,
        why=why,
        rules=_rules(runs, names),
    )


def _rules(runs: Runs, names: Sequence[str]) -> tuple[str, ...]:
    """The fusing rules that made some nodes."""
    applied = (entry for entry in runs.fused.record if entry.applied and not set(entry.added).isdisjoint(names))
    return tuple(dict.fromkeys(entry.rule for entry in applied))


def _origins(runs: Runs, names: Sequence[str]) -> tuple[str, ...]:
    """The nodes of the source graph that went into nodes of the fused one, in execution order."""
    found = {origin for name in names for origin in runs.fused.origins.get(name, (name,))}
    chosen = [node.name for node in runs.graph.nodes if node.name in found]
    computing = [name for name in chosen if runs.graph.sources(name)]
    return tuple(computing or chosen or names)


def _inputs(runs: Runs, names: Sequence[str]) -> dict[str, Array]:
    """What nodes of the source graph read: of one by field, of several by reference."""
    known = {(each.node, each.port): runs.values[each] for each in runs.values if _is_in_source(runs, each)}
    with contextlib.suppress(KeyError):
        values = _InSource(runs.graph, known)
        if len(names) == 1:
            return cut_node(runs.graph, names[0], values)[1]
        return {node.name: values[node.name] for node in cut(runs.graph, names).inputs}
    return {}


def _is_in_source(runs: Runs, source: Source) -> bool:
    """Whether the source graph has a value of this name, with the same sizes."""
    with contextlib.suppress(GraphError):
        return runs.graph.desc(*source).sizes == runs.ir.desc(*source).sizes
    return False


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
