"""Trials: runs of graphs on a device that are compared with the reference, and counted."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dmlgraph.base.errors import DmlGraphError
from dmlgraph.devices import Choice, choose
from dmlgraph.devices.compile import compile_graph
from dmlgraph.doctor.judge import Judge
from dmlgraph.doctor.parts import run as run_parts
from dmlgraph.doctor.values import first_step, read_in_source
from dmlgraph.graph.graph import Graph
from dmlgraph.graph.nodes import OperatorNode, is_computed
from dmlgraph.measure.ulp import Comparison, Tolerance, compare

Array = np.ndarray[Any, Any]
Results = Mapping[str, Array]  # the outputs of a graph by name

_ALLOWED = {np.dtype(np.float16): (8, 2e-3), np.dtype(np.float32): (64, 1e-5), np.dtype(np.float64): (64, 1e-13)}
WHOLE = 16  # times the tolerance of one operator: what a graph of many may differ by


def tolerance(expected: Array, times: int = 1) -> Tolerance:
    """Floats may be some units in the last place off, or a small part of the tensor's largest number."""
    units, part = _ALLOWED.get(expected.dtype, (0, 0.0))
    finite = np.abs(expected[np.isfinite(expected)].astype(np.float64)) if part else np.zeros(0)
    return Tolerance(times * units, 0.0, times * part * float(finite.max(initial=0.0)))


def telling(got: Results, expected: Results) -> Tolerance:
    """The tolerance by which wrong outputs of an operator are wrong: a smaller one where the fault is smaller."""
    usual = {name: tolerance(each) for name, each in expected.items()}
    shown = [each for name, each in usual.items() if not compare(got[name], expected[name], each).equal]
    if shown:
        return Tolerance(max(each.ulp for each in shown), 0.0, max(each.absolute for each in shown))
    worst = max((compare(got[name], each) for name, each in expected.items()), key=lambda each: each.ulp or 0)
    return Tolerance(0, 0.0, worst.absolute / 2)


def near_as_a_whole(got: Array, expected: Array) -> Comparison:
    """Whether the output of a graph is as expected."""
    return compare(got, expected, tolerance(expected, WHOLE))


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a trial.

    Attributes:
        compared: each output with the expected one; empty if the device could not run the graph.
        is_wrong: whether the device ran it, and an output is wrong.
        error: why it could not.
        dispatches: how many there were, or how many nodes the compiled graph has.
        got, expected: the outputs by name, and the next values of states.
    """

    compared: Mapping[str, Comparison] = dataclasses.field(default_factory=dict)
    is_wrong: bool = False
    error: str = ""
    dispatches: int = 0
    got: Mapping[str, Array] = dataclasses.field(default_factory=dict)
    expected: Mapping[str, Array] = dataclasses.field(default_factory=dict)

    @property
    def is_right(self) -> bool:
        return not self.error and not self.is_wrong

    @property
    def worst(self) -> str:
        """The output that differs most.

        Raises:
            LookupError: nothing differs.
        """
        wrong = {name: each for name, each in self.compared.items() if not each.equal}
        if not wrong:
            raise LookupError("no output is wrong")
        return max(wrong, key=lambda name: np.inf if wrong[name].ulp is None else float(wrong[name].ulp or 0))


Judged = Callable[[Results, Results], Outcome]  # of what a device computed, and what is expected


def _as_a_whole(got: Results, expected: Results) -> Outcome:
    """Outputs of a graph of many operators."""
    compared = {name: near_as_a_whole(array, expected[name]) for name, array in got.items()}
    return Outcome(compared, any(not each.equal for each in compared.values()))


def operator_of(graph: Graph) -> OperatorNode:
    """The node of a graph of one operator; others are views and fills that it reads."""
    nodes = [each for each in graph.nodes if is_computed(each)]
    return next((each for each in nodes if each.operator.input_fields), nodes[-1])


class Trials:
    """Runs graphs on a device and on the reference.

    Args:
        device: the one that computes wrong.
        fuse: as in `Graph.compile`, on the device.
        runs: of each trial; more than one where the results of the device change from run to run.

    Attributes:
        executions: how often the device has run.
    """

    def __init__(self, device: Choice, *, fuse: bool = True, runs: int = 1) -> None:
        self.device, self.fuse, self.runs = device, fuse, runs
        self.executions = 0
        self._basis = choose("reference")

    def run(self, graph: Graph, inputs: Mapping[str, Array]) -> Outcome:
        """One trial of a graph of one operator, by the bounds of which it is judged.

        What the device refuses is an outcome, too.
        """
        return self._tried(graph, inputs, lambda got, expected: self._judged(graph, inputs, got, expected))

    def run_whole(self, graph: Graph, inputs: Mapping[str, Array]) -> Outcome:
        """One trial of a graph of many operators."""
        return self._tried(graph, inputs, _as_a_whole)

    def _tried(self, graph: Graph, inputs: Mapping[str, Array], judged: Judged) -> Outcome:
        self.executions += self.runs
        try:
            with compile_graph(graph, self.device, fuse=self.fuse) as executable:
                results = [first_step(executable, inputs) for _ in range(self.runs)]
                count = executable.stats.get("dispatches", len(executable.graph.nodes))
        except DmlGraphError as error:
            return Outcome(error=error.problems[0].headline.splitlines()[0])
        expected = self._expected(graph, inputs)
        outcome = Outcome()
        for got in results:
            outcome = dataclasses.replace(judged(got, expected), dispatches=count, got=got, expected=expected)
            if outcome.is_wrong:
                break
        return outcome

    def _expected(self, graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
        with compile_graph(graph, self._basis, fuse=False) as executable:
            return first_step(executable, inputs)

    def _judged(self, graph: Graph, inputs: Mapping[str, Array], got: Results, expected: Results) -> Outcome:
        """Outputs by the bounds of the operator."""
        node = operator_of(graph)
        read = read_in_source(graph, node, {(name, 0): value for name, value in inputs.items()})
        pairs = [(got[name], expected[name]) for name in got]
        is_wrong = Judge(self.device.name).wrong(node.operator, read, *zip(*pairs, strict=True))
        allowed = telling(got, expected)
        return Outcome({name: compare(got[name], expected[name], allowed) for name in got}, is_wrong)

    def run_in_parts(
        self, graph: Graph, parts: tuple[Graph, Graph], inputs: Mapping[str, Array]
    ) -> Outcome:
        """A trial of a graph in two executions."""
        self.executions += 1
        try:
            got, count = run_parts(graph, parts, inputs, self.device, fuse=self.fuse)
        except DmlGraphError as error:
            return Outcome(error=error.problems[0].headline.splitlines()[0])
        expected = self._expected(graph, inputs)
        return dataclasses.replace(_as_a_whole(got, expected), dispatches=count, got=got, expected=expected)

    def is_wrong(self, graph: Graph, inputs: Mapping[str, Array]) -> bool:
        return self.run(graph, inputs).is_wrong
