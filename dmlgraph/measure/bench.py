"""Measures a graph on a device: compilation, the first run, later runs, and each node."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from dmlgraph.base.memory import enough_memory
from dmlgraph.compiler.desc import GraphDesc, OperatorDescNode
from dmlgraph.devices import Choice
from dmlgraph.devices.compile import compile_graph
from dmlgraph.devices.executable import Array, Executable, Roof, Step
from dmlgraph.graph.graph import Graph

SECONDS = 1.0  # the runs go on for about this long if their number is not given …
LEAST_RUNS, MOST_RUNS = 5, 1000  # … but their number has these limits
PROFILES = 3  # runs that are timed node by node; the quickest counts
STAGES = ("fuse", "lower", "compile")
PHASES = {"upload": "upload_seconds", "execution": "run_seconds", "readback": "readback_seconds"}
IN_FLIGHT = 2
# What a device holds for one run, besides inputs and outputs: DirectML has the first two, cpu the next three.
MEMORY = ("persistent_bytes", "temporary_bytes", "packed_bytes", "arena_bytes", "scratch_bytes", "state_bytes")

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class Span:
    """A time interval: `start` on the clock of `time.perf_counter`."""

    start: float
    seconds: float


@dataclasses.dataclass(frozen=True, slots=True)
class Profile:
    """A run timed node by node."""

    span: Span
    steps: tuple[Step, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Measurement:
    """The times of a graph on a device.

    Attributes:
        device: its name.
        reason: why it was chosen.
        graph: the lowered graph that it executes.
        compilation: fusing, lowering and compiling, without opening the device.
        first: the first run, which may prepare data for the later ones.
        runs: the later ones, into existing arrays.
        in_flight: as many runs as `runs`, with new arrays, two of them in flight at a time; None for a graph with
            states, whose runs wait for one another.
        profile: None where the device cannot time single nodes.
        stats: the executable's, after the runs.
        roof: what the device can do at the most; None where it cannot tell.
    """

    device: str
    reason: str
    graph: GraphDesc
    compilation: Span
    first: Span
    runs: tuple[Span, ...]
    in_flight: Span | None
    profile: Profile | None
    stats: Mapping[str, Any]
    roof: Roof | None = None

    @property
    def median_seconds(self) -> float:
        return statistics.median(run.seconds for run in self.runs)

    @property
    def min_seconds(self) -> float:
        return min(run.seconds for run in self.runs)

    @property
    def in_flight_seconds(self) -> float | None:
        """The time of one of the runs in flight."""
        return None if self.in_flight is None else self.in_flight.seconds / len(self.runs)

    @property
    def phases(self) -> dict[str, float]:
        """The parts of a run that the device tells apart, in seconds: upload, execution and readback."""
        return {phase: self.stats[key] for phase, key in PHASES.items()} if "upload_seconds" in self.stats else {}

    @property
    def dispatches(self) -> int | None:
        """The dispatches of one run; None if the device does not count them."""
        return self.stats.get("dispatches")

    @property
    def peak_bytes(self) -> int | None:
        """The memory of one run besides its inputs, outputs and constants; None if the device does not tell it."""
        known = [self.stats[key] for key in MEMORY if key in self.stats]
        return sum(known) if any(key in self.stats for key in ("temporary_bytes", "arena_bytes")) else None

    @property
    def input_bytes(self) -> int:
        """The bytes of the inputs given at every run; owned inputs and constants stay on the device."""
        return sum(slot.desc.total_bytes for slot in self.graph.given if not slot.desc.owned)

    @property
    def output_bytes(self) -> int:
        return sum(slot.desc.total_bytes for slot in self.graph.results)

    @property
    def stages(self) -> dict[str, float]:
        """The known parts of `compilation`, in seconds."""
        return {stage: self.stats[f"{stage}_seconds"] for stage in STAGES if f"{stage}_seconds" in self.stats}

    def operators(self, step: Step) -> tuple[str, ...]:
        """The operators of a step's nodes."""
        named = {node.name: node.operator.name for node in self.graph.nodes if isinstance(node, OperatorDescNode)}
        return tuple(named[name] for name in step.nodes if name in named)

    def as_json(self) -> dict[str, Any]:
        """Everything as plain data; times in seconds, steps relative to the beginning of the run."""
        return {
            "device": self.device,
            "reason": self.reason,
            "nodes": len(self.graph.nodes),
            "compile_seconds": self.compilation.seconds,
            "first_seconds": self.first.seconds,
            "median_seconds": self.median_seconds,
            "min_seconds": self.min_seconds,
            "run_seconds": [run.seconds for run in self.runs],
            "in_flight_seconds": self.in_flight_seconds,
            "phases": self.phases,
            "input_bytes": self.input_bytes,
            "output_bytes": self.output_bytes,
            "dispatches": self.dispatches,
            "descriptors": self.stats.get("descriptor_count"),
            "persistent_bytes": self.stats.get("persistent_bytes"),
            "temporary_bytes": self.stats.get("temporary_bytes"),
            "peak_bytes": self.peak_bytes,
            "stats": {key: value for key, value in self.stats.items() if isinstance(value, (int, float, str))},
            "roof": self.roof and dataclasses.asdict(self.roof),
            "steps": self.profile
            and [dataclasses.asdict(step) | {"operators": self.operators(step)} for step in self.profile.steps],
        }


def measure(
    graph: Graph,
    choice: Choice,
    inputs: Mapping[str, Array],
    *,
    fuse: bool = True,
    repeats: int | None = None,
) -> Measurement:
    """Compiles and runs a graph, and measures the times.

    Args:
        graph: with its dims resolved.
        choice: the open device.
        inputs: an array for every input.
        fuse: as in `Graph.compile`.
        repeats: runs after the first; by default as many as fit in a second.

    Raises:
        DmlGraphError: as when compiling and running the graph.
    """
    compilation, executable = _timed(lambda: compile_graph(graph, choice, fuse=fuse))
    with executable, enough_memory("run", executable.graph):
        out = {slot.name: np.empty(slot.desc.sizes, slot.desc.dtype.numpy) for slot in executable.graph.results}
        again = executable.bind(inputs, out)
        first, _ = _timed(again)
        runs = _repeat(again, repeats, executable.states.reset if executable.graph.states else None)
        stats = dict(executable.stats)
        if executable.graph.states:
            stats["state_bytes"] = executable.states.bytes
        in_flight = None if executable.graph.states else _in_flight(executable, inputs, len(runs))
        profile = _profile(executable, inputs)
        return Measurement(
            executable.device,
            executable.reason,
            executable.graph,
            compilation,
            first,
            runs,
            in_flight,
            profile,
            stats,
            executable.roof(),
        )


def _repeat(run: Callable[[], object], repeats: int | None, reset: Callable[[], object] | None) -> tuple[Span, ...]:
    """Times runs; `reset` comes before each."""
    spans: list[Span] = []
    end = time.perf_counter() + SECONDS
    while len(spans) < (LEAST_RUNS if repeats is None else repeats) or (
        repeats is None and len(spans) < MOST_RUNS and time.perf_counter() < end
    ):
        if reset is not None:
            reset()
        spans.append(_timed(run)[0])
    return tuple(spans)


def _in_flight(executable: Executable, inputs: Mapping[str, Array], count: int) -> Span:
    """Times runs that are in flight together."""
    span, _ = _timed(lambda: collections.deque(executable.map(itertools.repeat(inputs, count), IN_FLIGHT), maxlen=0))
    return span


def _profile(executable: Executable, inputs: Mapping[str, Array]) -> Profile | None:
    quickest: Profile | None = None
    for _ in range(PROFILES):
        span, steps = _timed(lambda: executable.profile(inputs))
        if steps is None:
            return None
        if quickest is None or span.seconds < quickest.span.seconds:
            quickest = Profile(span, tuple(steps))
    return quickest


def _timed(function: Callable[[], T]) -> tuple[Span, T]:
    start = time.perf_counter()
    result = function()
    return Span(start, time.perf_counter() - start), result
