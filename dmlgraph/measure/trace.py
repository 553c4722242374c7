"""Measurements in the trace-event format, which https://ui.perfetto.dev and chrome://tracing show.

Every device is a process with one thread; its slices are compilation, the runs and, inside one of them, the nodes.
The format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from dmlgraph.compiler.desc import GraphDesc, OperatorDescNode
from dmlgraph.measure.bench import IN_FLIGHT, Measurement, Span

NAMED_NODES = 3  # the most nodes in the name of a step

Event = dict[str, Any]


def trace(measurements: Sequence[Measurement]) -> dict[str, Any]:
    """The trace as data for `json.dump`; times start at the first measurement's compilation."""
    origin = min(each.compilation.start for each in measurements)
    return {
        "displayTimeUnit": "ms",
        "traceEvents": [
            event for process, each in enumerate(measurements, 1) for event in _events(each, process, origin)
        ],
    }


def _events(measurement: Measurement, process: int, origin: float) -> Iterator[Event]:
    device = {"pid": process, "tid": 1}
    yield device | {"ph": "M", "name": "process_name", "args": {"name": measurement.device}}
    yield device | {"ph": "M", "name": "thread_name", "args": {"name": measurement.graph.name}}
    for name, category, span, args in _slices(measurement):
        # Whole nanoseconds; both ends are rounded the same way, so that nested slices stay nested.
        begin, end = (round((moment - origin) * 1e9) for moment in (span.start, span.start + span.seconds))
        yield device | {
            "ph": "X",
            "name": name,
            "cat": category,
            "ts": begin / 1000,
            "dur": (end - begin) / 1000,
            "args": args,
        }


def _slices(measurement: Measurement) -> Iterator[tuple[str, str, Span, dict[str, Any]]]:
    """Name, category, time and arguments of each slice, outer before inner."""
    compilation = measurement.compilation
    described = {"device": measurement.device, "reason": measurement.reason, "nodes": len(measurement.graph.nodes)}
    yield "compile", "compile", compilation, described
    ends = itertools.accumulate(measurement.stages.values(), initial=compilation.start)
    for (stage, seconds), start in zip(measurement.stages.items(), ends, strict=False):
        yield (f"{stage} on the device" if stage == "compile" else stage), "compile", Span(start, seconds), {}
    bytes_moved = {"input_bytes": measurement.input_bytes, "output_bytes": measurement.output_bytes}
    yield "first run", "run", measurement.first, bytes_moved
    for index, run in enumerate(measurement.runs):
        yield "run", "run", run, {"index": index}
    if measurement.runs:
        yield from _phases(measurement, measurement.runs[-1])
    if measurement.in_flight is not None:
        yield "runs in flight", "run", measurement.in_flight, {"runs": len(measurement.runs), "in_flight": IN_FLIGHT}
    profile = measurement.profile
    if profile is None:
        return
    yield "run by nodes", "run", profile.span, bytes_moved
    facts = _facts(measurement.graph)
    for step in profile.steps:
        more = len(step.nodes) - NAMED_NODES
        name = ", ".join(step.nodes[:NAMED_NODES]) + (f" and {more} more" if more > 0 else "")
        yield (
            name,
            "node",
            Span(profile.span.start + step.start, step.seconds),
            {
                "how": step.how,
                "kernel": step.kernel,
                "bytes": step.bytes,
                "operations": step.operations,
                "of_integers": step.of_integers,
                "nodes": {node: facts[node] for node in step.nodes if node in facts},
            },
        )


def _phases(measurement: Measurement, run: Span) -> Iterator[tuple[str, str, Span, dict[str, Any]]]:
    """Upload, execution and readback inside the run that they are of; what comes before them is Python's."""
    start = run.start + max(0.0, run.seconds - sum(measurement.phases.values()))
    for phase, seconds in measurement.phases.items():
        yield phase, "phase", Span(start, seconds), {}
        start += seconds


def _facts(graph: GraphDesc) -> dict[str, Any]:
    """The arguments of a slice about each node."""
    return {
        node.name: {
            "operator": node.operator.name,
            "outputs": [str(desc) for desc in node.operator.output_descs if desc is not None],
        }
        for node in graph.nodes
        if isinstance(node, OperatorDescNode)
    }
