"""Runs the tests beside a graph: each on its devices."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from dmlgraph.base.by_name import above
from dmlgraph.base.errors import DeviceError, DmlGraphError, plural
from dmlgraph.devices import Choice, choose, list_devices
from dmlgraph.devices.compile import compile_graph
from dmlgraph.devices.device import lacks
from dmlgraph.measure.diff import Side, diff, labels_of_states
from dmlgraph.measure.inputs import complete
from dmlgraph.measure.report import INDENT, cause
from dmlgraph.measure.ulp import Tolerance, compare
from dmlgraph.testing.records import Outcome, Result, case_name
from dmlgraph.testing.report import outputs

if TYPE_CHECKING:
    from dmlgraph.devices.executable import Array, Executable
    from dmlgraph.formats.yaml.tests import GraphTest
    from dmlgraph.graph.graph import Graph


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """A test on one device.

    Attributes:
        test: the test.
        device: the device's name.
        named: whether the test names the device; else it runs there because the device is here.
    """

    test: GraphTest
    device: str
    named: bool

    @property
    def name(self) -> str:
        return case_name(self.test.name, self.device)


@dataclasses.dataclass(frozen=True, slots=True)
class _Given:
    """What a graph is run on: inputs, what states hold before, how often it runs, the outputs to collect."""

    inputs: Mapping[str, Array]
    states: Mapping[str, Array] = dataclasses.field(default_factory=dict)
    steps: int | None = None
    collect: tuple[str, ...] = ()


class _SkippedError(Exception):
    """The test cannot run here."""


@functools.cache
def devices_here() -> tuple[str, ...]:
    """The names of the devices that can be used on this machine."""
    return tuple(device.name for device in list_devices() if device.missing is None)


def cases(graph: Graph, asked: Sequence[str] = ()) -> Iterator[Case]:
    """The tests of a graph, each with its devices; one that names none also runs on the `asked` ones that are here."""
    every = dict.fromkeys((*devices_here(), *filter(_is_here, asked)))
    for test in graph.origin.tests.values():
        for device in every if test.devices is None else test.devices:
            yield Case(test, device, test.devices is not None)


def _is_here(name: str) -> bool:
    """Whether a device can be used under this name, which may be another than that in the list of devices."""
    try:
        choose(name)
    except DeviceError:
        return False
    return True


class Runner:
    """Runs the tests of a graph; compiles the graph once for each device and each choice of dims.

    Use it in a `with` statement, which releases what was compiled.

    Args:
        graph: the graph.
        metacommands, half_precision: as in `Graph.compile`, of the devices that are tested.
    """

    def __init__(self, graph: Graph, *, metacommands: bool = True, half_precision: bool = False) -> None:
        self.graph = graph
        self._tested = functools.partial(_here, metacommands=metacommands, half_precision=half_precision)
        self._sized: dict[tuple[tuple[str, int], ...], Graph] = {}
        self._compiled: dict[tuple[int, Side], Executable] = {}
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Releases what was compiled; a later run compiles again."""
        self._compiled.clear()
        self._open.close()

    def run(self, case: Case) -> Result:
        """Runs a test on a device.

        Never raises a DmlGraphError: a graph that the device cannot run, or data that does not fit, is a failure.
        """
        return self._result(lambda: self._run(case))

    def try_out(self, name: str) -> Result:
        """Runs a graph without tests on the device of this name, with random inputs; compares nothing."""
        return self._result(lambda: self._try_out(name))

    def examine(self, name: str) -> Result:
        """Examines every node on the device of this name with random inputs, as `dmlgraph doctor` does."""
        return self._result(lambda: self._examine(name))

    def _result(self, run: Callable[[], str]) -> Result:
        begin = time.perf_counter()
        try:
            report = run()
            outcome = Outcome.FAILED if report else Outcome.PASSED
        except _SkippedError as reason:
            outcome, report = Outcome.SKIPPED, str(reason)
        except DmlGraphError as error:
            outcome, report = Outcome.FAILED, str(error.with_problems(map(self.graph.origin.located, error.problems)))
        return Result(outcome, report, time.perf_counter() - begin)

    def _try_out(self, name: str) -> str:
        device = Side(self._tested(name), fuse=True)
        with _skipping():
            self._results(self.graph, device, _Given(complete(self.graph, {})[0]))
        return ""

    def _examine(self, name: str) -> str:
        """What is wrong; empty if nothing is."""
        device = self._tested(name)
        with _skipping():
            return str(above("doctor.examined:examined", self.graph, device, complete(self.graph, {})[0]))

    def _run(self, case: Case) -> str:
        """The report of a failure; empty if the test passes."""
        test = case.test
        device = Side(self._tested(case.device), fuse=True)
        graph = self._graph(test)
        labels = {state.name: label for label, state in labels_of_states(graph).items()}
        same_as = {**test.same_as, **{labels[name]: other for name, other in test.states_same_as.items()}}
        others = {name: Side(_here(other), fuse=False) for name, other in same_as.items()}
        given = _Given(test.input_arrays(graph), test.state_arrays(graph), test.steps, test.collect)
        expected = test.expected_arrays(graph)
        expected |= {labels[name]: array for name, array in test.expected_states(graph).items()}
        with contextlib.nullcontext() if case.named else _skipping():
            results = self._results(graph, device, given)
        for side in set(others.values()):
            computed = self._results(graph, side, given)
            expected |= {name: computed[name] for name, wanted in others.items() if wanted == side}
        failed = {name: array for name, array in expected.items() if not _is_equal(array, results[name], test)}
        if not failed:
            return ""
        basis = next((others[name] for name in failed if name in others), Side(choose("reference"), fuse=False))
        lines = [f"{test.location}: test '{test.name}' failed on {case.device}"]
        lines += _what_failed(graph, failed, results, test, case.device)
        lines += self._cause(graph, (basis, device), given, test, failed)
        return "\n".join((lines[0], *(INDENT + line for line in lines[1:])))

    def _cause(
        self,
        graph: Graph,
        sides: tuple[Side, Side],
        given: _Given,
        test: GraphTest,
        failed: Mapping[str, Array],
    ) -> Iterator[str]:
        """The first node in which the device differs from a side that computes some of `failed` as expected."""
        basis, device = sides
        try:
            computed = self._results(graph, basis, given)
            right = any(_is_equal(array, computed[name], test) for name, array in failed.items())
            found = None
            if right:
                steps = given.steps or 1
                found = diff(graph, sides, given.inputs, _tolerance(test), states=given.states, steps=steps)
        except DmlGraphError as error:
            yield f"'{basis}' cannot run the graph for a comparison: {error}"
            return
        if found is not None:
            if found.step and not found.equal:
                yield f"'{basis}' and '{device}' differ from step {found.step} on"
            yield from cause(graph, found)
        elif basis.device == device.device:
            yield "without fusion, too: the graph computes something else than the test expects"
        else:
            yield f"on '{basis.device.name}', too: the graph computes something else than the test expects"

    def _graph(self, test: GraphTest) -> Graph:
        key = tuple(test.dims.items())
        if key not in self._sized:
            self._sized[key] = test.sized(self.graph)
        return self._sized[key]

    def _results(self, graph: Graph, side: Side, given: _Given) -> dict[str, Array]:
        """The outputs, and the states after the last step by their labels."""
        key = id(graph), side
        if key not in self._compiled:
            self._compiled[key] = self._open.enter_context(compile_graph(graph, side.device, fuse=side.fuse))
        executable = self._compiled[key]
        if not graph.states:
            return executable.run(given.inputs, steps=given.steps, collect=given.collect)
        states = executable.new_states()
        for name, array in given.states.items():
            states[name] = array
        results = executable.run(given.inputs, states=states, steps=given.steps, collect=given.collect)
        return results | {label: states[state.name] for label, state in labels_of_states(graph).items()}


def _is_equal(expected: Array, computed: Array, test: GraphTest) -> bool:
    """Whether an array is as expected; of a growing state, with as many rows."""
    return expected.shape == computed.shape and compare(expected, computed, _tolerance(test)).equal


def _what_failed(
    graph: Graph, failed: Mapping[str, Array], results: Mapping[str, Array], test: GraphTest, device: str
) -> Iterator[str]:
    """The outputs and states that are not as expected."""
    states = labels_of_states(graph)
    for label, expected in failed.items():
        computed = results[label]
        if expected.shape == computed.shape:
            compared = {label: compare(expected, computed, _tolerance(test))}
            yield from outputs(graph, compared, ("expected", device))
        else:
            axis = states[label].grows
            assert axis is not None  # everything else has the sizes that were checked
            has, wanted = (plural(array.shape[axis], "row") for array in (computed, expected))
            yield f"state '{states[label].name}': has {has} on {device}, {wanted} expected"


def _tolerance(test: GraphTest) -> Tolerance:
    return Tolerance(test.ulp, test.relative, test.absolute)


@contextlib.contextmanager
def _skipping() -> Iterator[None]:
    """A device that lacks something that the graph needs skips the test."""
    try:
        yield
    except DmlGraphError as error:
        if lacks(error):
            raise _SkippedError(str(error)) from None
        raise


def _here(name: str, *, metacommands: bool = True, half_precision: bool = False) -> Choice:
    """A device that a test names; a test of a device that is not here is skipped."""
    try:
        return choose(name, metacommands=metacommands, half_precision=half_precision)
    except DeviceError as error:
        why = "; ".join(str(dataclasses.replace(problem, field=None, got=None)) for problem in error.problems)
        raise _SkippedError(f"'{name}' is not here: {why}") from None
