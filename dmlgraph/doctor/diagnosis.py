"""Diagnosis: a node that a device computes wrong, shrunk, with the ways round it.

    found = diagnose(graph, "norm", inputs, choose("directml"))
    print(report.text(found))
    found.treatment.graph().save("net.yaml")
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from dmlgraph.base.free_names import FreeNames
from dmlgraph.devices import Choice, choose
from dmlgraph.devices.compile import compile_graph
from dmlgraph.doctor.cut import cut_node
from dmlgraph.doctor.judge import is_exact
from dmlgraph.doctor.shrink import Shrunk, shrink
from dmlgraph.doctor.trials import Compare, Outcome, Trials, exactly, near
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
        node: the name of the operator that is computed wrong.
        device: where.
        case: the node alone, shrunk; None: it is right alone, so that it is wrong only together with others.
        outcome: of the case on the device; None without a case.
        treatment: the ways round it.
        executions: how often the device ran for all of this.
    """

    graph: Graph
    node: str
    device: Choice
    case: Shrunk | None
    outcome: Outcome | None
    treatment: Treatment
    executions: int

    @property
    def operator(self) -> Operator:
        """That of the node."""
        node = self.graph.node(self.node)
        assert isinstance(node, OperatorNode)
        return node.operator


def diagnose(
    graph: Graph,
    node: str,
    inputs: Mapping[str, Array],
    device: Choice,
    *,
    read: Mapping[str, Array] | None = None,
    fuse: bool = True,
    compare: Compare | None = None,
    runs: int = 1,
) -> Diagnosis:
    """Shrinks a node and tries the ways round it.

    Args:
        graph: with its dims resolved.
        node: the name of the operator that the device computes wrong.
        inputs: of the graph, with which it does.
        device: where.
        read: what the node reads on the device, by field; by default what the reference computes.
        fuse: as the graph is compiled.
        compare: an output of an operator with the expected one; by default to the bit where every device rounds alike.
        runs: of each trial; more than one where the results of the device change from run to run.

    Raises:
        GraphError: the node is not an operator.
        DmlGraphError: the reference cannot run the graph.
    """
    wrong = graph.node(node)
    if compare is None:
        compare = exactly if isinstance(wrong, OperatorNode) and is_exact(wrong.operator) else near
    trials = Trials(device, compare, fuse=fuse, runs=runs)
    part, given = cut_node(graph, node, read_by(graph, node, inputs))
    given |= {name: array for name, array in (read or {}).items() if name in given}
    case = outcome = None
    if trials.is_wrong(part, given):
        case = shrink(part, given, trials.is_wrong)
        outcome = trials.run(case.graph, case.inputs)
    treatment = treat(graph, node, inputs, trials, case)
    return Diagnosis(graph, node, device, case, outcome, treatment, trials.executions)


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
