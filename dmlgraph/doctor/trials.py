"""Trials: runs of graphs on a device that are compared with the reference, and counted."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dmlgraph.base.errors import DmlGraphError
from dmlgraph.devices import Choice, choose
from dmlgraph.devices.compile import compile_graph
from dmlgraph.doctor.parts import run as run_parts
from dmlgraph.graph.graph import Graph
from dmlgraph.measure.ulp import Comparison, Tolerance, compare

Array = np.ndarray[Any, Any]
Compare = Callable[[Array, Array], Comparison]  # what a device computed, and what is expected

_ALLOWED = {np.dtype(np.float16): (8, 2e-3), np.dtype(np.float32): (64, 1e-5), np.dtype(np.float64): (64, 1e-13)}
WHOLE = 16  # times the tolerance of one operator: what a graph of many may differ by


def tolerance(expected: Array, times: int = 1) -> Tolerance:
    """Floats may be some units in the last place off, or a small part of the tensor's largest number."""
    units, part = _ALLOWED.get(expected.dtype, (0, 0.0))
    finite = np.abs(expected[np.isfinite(expected)].astype(np.float64)) if part else np.zeros(0)
    return Tolerance(times * units, 0.0, times * part * float(finite.max(initial=0.0)))


def near(got: Array, expected: Array) -> Comparison:
    """Whether the output of an operator is as expected."""
    return compare(got, expected, tolerance(expected))


def exactly(got: Array, expected: Array) -> Comparison:
    """Whether the output of an operator whose result every device rounds alike is as expected."""
    return compare(got, expected, Tolerance(0, 0.0, 0.0))


def near_as_a_whole(got: Array, expected: Array) -> Comparison:
    """Whether the output of a graph is as expected."""
    return compare(got, expected, tolerance(expected, WHOLE))


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a trial.

    Attributes:
        compared: each output with the expected one; empty if the device could not run the graph.
        error: why it could not.
        dispatches: how many there were, or how many nodes the compiled graph has.
        got, expected: the outputs by name.
    """

    compared: Mapping[str, Comparison] = dataclasses.field(default_factory=dict)
    error: str = ""
    dispatches: int = 0
    got: Mapping[str, Array] = dataclasses.field(default_factory=dict)
    expected: Mapping[str, Array] = dataclasses.field(default_factory=dict)

    @property
    def is_wrong(self) -> bool:
        """Whether the device ran it, and an output is wrong."""
        return any(not each.equal for each in self.compared.values())

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


class Trials:
    """Runs graphs on a device and on the reference.

    Args:
        device: the one that computes wrong.
        compare: an output with the expected one.
        fuse: as in `Graph.compile`, on the device.
        runs: of each trial; more than one where the results of the device change from run to run.

    Attributes:
        executions: how often the device has run.
    """

    def __init__(self, device: Choice, compare: Compare = near, *, fuse: bool = True, runs: int = 1) -> None:
        self.device, self.compare, self.fuse, self.runs = device, compare, fuse, runs
        self.executions = 0
        self._basis = choose("reference")

    def run(self, graph: Graph, inputs: Mapping[str, Array], compare: Compare | None = None) -> Outcome:
        """One trial, compared in another way if that is given.  What the device refuses is an outcome, too."""
        self.executions += self.runs
        try:
            with compile_graph(graph, self.device, fuse=self.fuse) as executable:
                results = [executable.run(inputs, states=executable.new_states()) for _ in range(self.runs)]
                count = executable.stats.get("dispatches", len(executable.graph.nodes))
        except DmlGraphError as error:
            return Outcome(error=error.problems[0].headline.splitlines()[0])
        with compile_graph(graph, self._basis, fuse=False) as executable:
            expected = executable.run(inputs)
        compare = compare or self.compare
        outcome = Outcome()
        for got in results:
            compared = {name: compare(array, expected[name]) for name, array in got.items()}
            outcome = Outcome(compared, dispatches=count, got=got, expected=expected)
            if outcome.is_wrong:
                break
        return outcome

    def run_in_parts(
        self, graph: Graph, parts: tuple[Graph, Graph], inputs: Mapping[str, Array], compare: Compare
    ) -> Outcome:
        """A trial of a graph in two executions."""
        self.executions += 1
        try:
            got, count = run_parts(graph, parts, inputs, self.device, fuse=self.fuse)
        except DmlGraphError as error:
            return Outcome(error=error.problems[0].headline.splitlines()[0])
        with compile_graph(graph, self._basis, fuse=False) as executable:
            expected = executable.run(inputs)
        compared = {name: compare(array, expected[name]) for name, array in got.items()}
        return Outcome(compared, dispatches=count, got=got, expected=expected)

    def is_wrong(self, graph: Graph, inputs: Mapping[str, Array]) -> bool:
        return self.run(graph, inputs).is_wrong
