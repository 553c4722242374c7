"""`dmlgraph bench`: measures how long a graph takes."""

from __future__ import annotations

import json
import pathlib
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import click

from dmlgraph.base.report import Report
from dmlgraph.base.tables import lines, narrowed, show_bytes, show_seconds
from dmlgraph.cli.array_options import ArrayFile, complete_inputs, with_inputs
from dmlgraph.cli.graph_files import load_graph
from dmlgraph.cli.messages import tell
from dmlgraph.cli.model_options import with_dims
from dmlgraph.cli.options import chosen, with_device, with_permissions, without_fusion, writing
from dmlgraph.cli.parameter_types import GRAPH, NEW_FILE, Whole
from dmlgraph.cli.reports import print_report
from dmlgraph.files.whole import write_text

if TYPE_CHECKING:
    from dmlgraph.devices import Choice
    from dmlgraph.devices.executable import Roof, Step
    from dmlgraph.measure.bench import Measurement

SHOWN_STEPS = 20  # the number of slowest steps shown
NAMED_NODES = 3  # the most nodes of a step that are shown
UNKNOWN = "-"
BAR = 10  # characters of a bar that is full

# The rows of the table for every device; below, those for devices that know these sizes.
_ROWS: tuple[tuple[str, Callable[[Measurement], str]], ...] = (
    ("nodes after fusion", lambda each: str(len(each.graph.nodes))),
    ("compile", lambda each: show_seconds(each.compilation.seconds)),
    ("first run", lambda each: show_seconds(each.first.seconds)),
    ("steady, median", lambda each: show_seconds(each.median_seconds)),
    ("steady, min", lambda each: show_seconds(each.min_seconds)),
    ("two in flight, each", lambda each: _known(each.in_flight_seconds)),
    ("runs", lambda each: str(len(each.runs))),
    ("dispatches", lambda each: UNKNOWN if each.dispatches is None else str(each.dispatches)),
    ("inputs", lambda each: show_bytes(each.input_bytes)),
    ("outputs", lambda each: show_bytes(each.output_bytes)),
    ("peak memory", lambda each: UNKNOWN if each.peak_bytes is None else show_bytes(each.peak_bytes)),
    ("both a second, median", lambda each: f"{show_bytes(_bytes_a_second(each))}/s"),
)
_PHASES = ("upload", "execution", "readback")
# What a compiled graph needs, where a device knows it.
_NEEDS: dict[str, tuple[str, Callable[[int], str]]] = {
    "descriptor_count": ("descriptors", str),
    "persistent_bytes": ("persistent", show_bytes),
    "temporary_bytes": ("temporary", show_bytes),
    "arena_bytes": ("arena", show_bytes),
    "state_bytes": ("states", show_bytes),
}


@click.command()
@click.argument("file", type=GRAPH)
@with_device(
    "Where to run; several devices are measured one after another.",
    "devices",
    multiple=True,
    default=("auto",),
    show_default=True,
)
@with_inputs
@without_fusion
@with_permissions
@click.option("--repeats", type=Whole(min=1), help="Steady runs; by default as many as take a second, at least 5.")
@click.option("--trace", type=NEW_FILE, metavar="FILE.json", help="Write all times for https://ui.perfetto.dev.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON, times in seconds.")
@with_dims
def bench(
    file: pathlib.Path,
    devices: tuple[str, ...],
    inputs: dict[str, ArrayFile],
    no_fuse: bool,
    repeats: int | None,
    trace: pathlib.Path | None,
    as_json: bool,
    dims: dict[str, int],
) -> None:
    """Measure how long a graph takes.

    It measures compilation, the first run, the steady runs after it (median and minimum), and each node, where the
    device can time nodes.  On cpu, a bar shows how much each node reached of what the processor can do at the most;
    more than all of it means that tensors were in the caches.  The steady runs write into existing arrays.  As many
    runs follow of which two are in flight at a time: they overlap if that is longer than to hand them to another
    thread.  DirectML tells upload, execution and readback apart, of the last steady run.  Inputs that are not given
    are filled with random numbers, the same every time: floats from a normal distribution, integers from 0 to 7.

    \b
    Examples:
      dmlgraph bench examples/positional_encoding.yaml
      dmlgraph bench examples/ramp.yaml --dim N=4096 --device reference --device cpu
      dmlgraph bench examples/ramp.yaml --repeats 100 --trace trace.json
    """
    from dmlgraph.graph.nodes import operator_count
    from dmlgraph.measure.bench import measure
    from dmlgraph.measure.trace import trace as make_trace

    choices = [chosen(device) for device in devices]
    graph = load_graph(file, dims, choices)
    tell(graph.warnings())
    arrays = complete_inputs(graph, inputs)
    with Report(place=graph.origin.located), _progress(choices) as bar:
        measurements = [measure(graph, choice, arrays, fuse=not no_fuse, repeats=repeats) for choice in bar]
    if trace is not None:
        with writing(trace):
            write_text(trace, json.dumps(make_trace(measurements)))
    if as_json:
        count = {"source_nodes": operator_count(graph.nodes)}
        measured = [each.as_json() | count for each in measurements]
        print_report("bench", {"graph": graph.name, "fused": not no_fuse, "devices": measured})
    else:
        click.echo("\n".join(_report(measurements, operator_count(graph.nodes))))


def _progress(choices: Sequence[Choice]) -> AbstractContextManager[Iterable[Choice]]:
    """The devices one after another, shown on a terminal."""
    return click.progressbar(
        choices,
        label="measuring",
        file=sys.stderr,
        hidden=not sys.stderr.isatty(),
        item_show_func=lambda choice: choice and choice.name,
    )


def _report(measurements: Sequence[Measurement], source_nodes: int) -> Iterator[str]:
    rows = [["", *(each.device for each in measurements)]]
    rows.append(["nodes of the file", *[str(source_nodes)] * len(measurements)])
    rows += [[label, *map(show, measurements)] for label, show in _ROWS]
    for phase in _PHASES:
        if any(phase in each.phases for each in measurements):
            rows.append([phase, *(_known(each.phases.get(phase)) for each in measurements)])
    for key, (label, show) in _NEEDS.items():
        if any(key in each.stats for each in measurements):
            sizes = (each.stats.get(key) for each in measurements)
            rows.append([label, *(UNKNOWN if size is None else show(size) for size in sizes)])
    yield from lines(rows, "<" + ">" * len(measurements))
    for each in measurements:
        yield ""
        yield from _steps(each)


def _known(seconds: float | None) -> str:
    return UNKNOWN if seconds is None else show_seconds(seconds)


def _steps(measurement: Measurement) -> Iterator[str]:
    """The slowest steps of a run."""
    profile = measurement.profile
    if profile is None:
        yield f"{measurement.device}: cannot measure the time of each node"
        return
    slowest = sorted(profile.steps, key=lambda step: -step.seconds)
    shown, rest = slowest[:SHOWN_STEPS], slowest[SHOWN_STEPS:]
    total = sum(step.seconds for step in slowest) or 1.0
    roof = measurement.roof
    rows = [[f"{measurement.device}: node", "operator", "how", "time", "share", "bytes", "a second"]]
    for step in shown:
        operators = _some(list(dict.fromkeys(measurement.operators(step))))
        how = f"{step.how} {step.kernel}".rstrip()
        share = f"{step.seconds / total:.1%}"
        row = [_some(step.nodes), operators, how, show_seconds(step.seconds), share, show_bytes(step.bytes)]
        rows.append([*row, _rate(step)])
    if rest:
        seconds = sum(step.seconds for step in rest)
        moved = show_bytes(sum(step.bytes for step in rest))
        rows.append([f"{len(rest)} more", "", "", show_seconds(seconds), f"{seconds / total:.1%}", moved, ""])
    aligned = "<<<>>>>"
    if any(step.dispatches is not None for step in shown):
        counts = (UNKNOWN if step.dispatches is None else str(step.dispatches) for step in shown)
        rows = [[*row, each] for row, each in zip(rows, ["dispatches", *counts, *[""] * bool(rest)], strict=True)]
        aligned += ">"
    if roof is not None:
        aligned += "><"
        shares = [roof.share(step) for step in shown]
        columns = [["of the roof", ""], *([f"{share:.0%}", _bar(share)] for share in shares), *[["", ""]] * bool(rest)]
        rows = [[*row, *more] for row, more in zip(rows, columns, strict=True)]
    if sys.stdout.isatty():
        rows = narrowed(rows, 2, shutil.get_terminal_size().columns)
    yield from lines(rows, aligned)
    if roof is None:
        return
    computing = ", ".join(_arithmetic(roof, shown))
    yield f"the roof: {computing}, or {roof.bytes / 1e9:.1f} GB/s between memory and processor"


def _arithmetic(roof: Roof, shown: Sequence[Step]) -> Iterator[str]:
    yield f"{roof.operations / 1e9:.0f} GFLOP/s"
    if any(step.of_integers for step in shown):
        yield f"{roof.integer_operations / 1e9:.0f} GOP/s of 8-bit integers"


def _rate(step: Step) -> str:
    """What a step did in a second: arithmetic where it has sums of products, else bytes."""
    arithmetic = "GOP" if step.of_integers else "GFLOP"
    count, unit = (step.operations, arithmetic) if step.operations else (step.bytes, "GB")
    return f"{count / max(step.seconds, 1e-9) / 1e9:.2f} {unit}"


def _bar(share: float) -> str:
    """A bar that is full where the share is 1 or more."""
    return "█" * round(BAR * min(share, 1.0))


def _some(names: Sequence[str]) -> str:
    """The first few of many names."""
    more = len(names) - NAMED_NODES
    return ", ".join(names[:NAMED_NODES]) + (f", {more} more" if more > 0 else "")


def _bytes_a_second(measurement: Measurement) -> int:
    return round((measurement.input_bytes + measurement.output_bytes) / max(measurement.median_seconds, 1e-9))
