"""Diagnosis: a node that a device computes wrong, shrunk, with the ways round it; or several that are together.

    found = diagnose(graph, ["norm"], inputs, choose("directml"))
    print(report.text(found))
    found.treatment.graph().save("net.yaml")
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dmlgraph.base.free_names import FreeNames
from dmlgraph.devices import Choice, choose
from dmlgraph.devices.compile import compile_graph
from dmlgraph.doctor.cut import cut_node
from dmlgraph.doctor.finding import Kind
from dmlgraph.doctor.shrink import Shrunk, shrink
from dmlgraph.doctor.trials import Outcome, Trials, operator_of
from dmlgraph.doctor.ways import Treatment, treat
from dmlgraph.graph.graph import Graph
from dmlgraph.graph.nodes import OperatorNode, is_view
from dmlgraph.graph.value import Value
from dmlgraph.operators.declaration.operator import Operator

Array = np.ndarray[Any, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Diagnosis:
    """What was found.

    Attributes:
        graph: the whole one.
        nodes: the name of the operator that is computed wrong, or the names of those that are wrong together, in
            execution order; empty if they are not known.
        device: where.
        case: a node alone, shrunk; None: each is right alone, so that they are wrong only together.
        outcome: of the case on the device; None without a case, or if it takes the device with it.
        treatment: the ways round it; None if none were tried, because they would take the device with them.
        executions: how often the device ran for all of this.
        ended: how the case ends, if it gives no results.
        kind: what was found.
    """

    graph: Graph
    nodes: Sequence[str]
    device: Choice
    case: Shrunk | None
    outcome: Outcome | None
    treatment: Treatment | None
    executions: int
    ended: str = ""
    kind: Kind = Kind.FAULT

    @property
    def operators(self) -> list[Operator]:
        """Those of the nodes."""
        found = map(self.graph.node, self.nodes)
        return [each.operator for each in found if isinstance(each, OperatorNode)]


def diagnose(
    graph: Graph,
    nodes: Sequence[str],
    inputs: Mapping[str, Array],
    device: Choice,
    *,
    kind: Kind = Kind.FAULT,
    blamed: str | None = None,
    read: Mapping[str, Array] | None = None,
    fuse: bool = True,
    runs: int = 1,
) -> Diagnosis:
    """Shrinks a node and tries the ways round it, and round what several compute together.

    Args:
        graph: with its dims resolved.
        nodes: the name of the operator that the device computes wrong, or the names of those that are wrong together,
            in execution order; empty if they are not known.
        inputs: of the graph, with which it does.
        device: where.
        kind: what was found.
        blamed: the one of several that may be wrong alone; by default a single node may.
        read: what the node reads on the device, by field; by default what the reference computes.
        fuse: as the graph is compiled.
        runs: of each trial; more than one where the results of the device change from run to run.

    Raises:
        GraphError: the node is not an operator.
        DmlGraphError: the reference cannot run the graph.
    """
    alone = nodes[0] if len(nodes) == 1 else blamed
    trials = Trials(device, fuse=fuse, runs=runs)
    case = None if alone is None else _shrunk(graph, alone, inputs, trials, read or {})
    outcome = None if case is None else trials.run(case.graph, case.inputs)
    nodes = nodes if case is None or alone is None else [alone]
    treatment = treat(graph, nodes, inputs, trials, case)
    return Diagnosis(graph, nodes, device, case, outcome, treatment, trials.executions, kind=kind)


def _shrunk(
    graph: Graph, node: str, inputs: Mapping[str, Array], trials: Trials, read: Mapping[str, Array]
) -> Shrunk | None:
    """The node alone, as small as it is still wrong; None if it is right alone."""
    part, given = cut_node(graph, node, read_by(graph, node, inputs))
    given |= {name: array for name, array in read.items() if name in given}
    if not trials.is_wrong(part, given):
        return None
    if not operator_of(part).operator.input_fields:  # nothing that it reads can be smaller
        return Shrunk(part, given, trials.executions, is_smallest=True, is_anonymous=False)
    return shrink(part, given, trials.is_wrong)


def read_by(graph: Graph, node: str, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """What a node reads as the reference computes it, by reference; also what it reads through views."""
    wanted: dict[str, tuple[str, int]] = {}
    waiting = [node]
    while waiting:
        for source in graph.sources(waiting.pop()):
            if source is not None:
                wanted[graph.reference(*source)] = source
                if is_view(graph.node(source[0])):
                    waiting.append(source[0])
    if not wanted:
        return {}
    other = copy.copy(graph)
    for name in list(other.outputs):
        other.remove_output(name)
    names = FreeNames([])
    by_output = {names.take(str(index)): reference for index, reference in enumerate(wanted)}
    for name, reference in by_output.items():
        other.output(name, Value(other, *wanted[reference]))
    with compile_graph(other, choose("reference"), fuse=False) as executable:
        found = executable.run(inputs)
    return {by_output[name]: array for name, array in found.items() if name in by_output}
