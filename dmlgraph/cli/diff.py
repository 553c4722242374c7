"""`dmlgraph diff`: finds where two devices differ."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from dmlgraph.base.report import Report
from dmlgraph.cli.array_options import ArrayFile, complete_inputs, with_inputs
from dmlgraph.cli.graph_files import load_graph
from dmlgraph.cli.messages import tell
from dmlgraph.cli.model_options import with_dims
from dmlgraph.cli.options import chosen, with_device, with_permissions, with_tolerance, without_fusion
from dmlgraph.cli.parameter_types import GRAPH
from dmlgraph.cli.standard_input import is_stdin

if TYPE_CHECKING:
    from dmlgraph.graph.graph import Graph
    from dmlgraph.measure.diff import Difference


@click.command()
@click.argument("file", type=GRAPH)
@with_device(
    "Twice: the two devices to compare.  Once: compare fused and not fused on this device.",
    "devices",
    multiple=True,
    required=True,
)
@with_inputs
@without_fusion
@with_permissions
@with_tolerance
@with_dims
@click.pass_context
def diff(
    ctx: click.Context,
    file: pathlib.Path,
    devices: tuple[str, ...],
    inputs: dict[str, ArrayFile],
    no_fuse: bool,
    ulp: int,
    relative: float,
    absolute: float,
    dims: dict[str, int],
) -> None:
    """Find where two devices differ.

    Both run the graph on the same inputs.  It prints the largest difference of each output in units in the last place
    (ULP), and, if outputs differ, the first node that differs while all nodes before it are equal, with the values
    around the element that differs most.  -0.0 and 0.0 differ by one unit; any two NaNs are equal.  Numbers are equal
    within any of --ulp, --relative and --absolute.  The exit status is 1 if an output differs.  Inputs that are not
    given are filled with random numbers, the same every time.

    \b
    Examples:
      dmlgraph diff examples/ramp.yaml --device reference --device cpu
      dmlgraph diff examples/positional_encoding.yaml --device reference --device directml:software --ulp 4
      dmlgraph diff examples/ramp.yaml --device reference --device cpu --relative 1e-3 --absolute 1e-6
      dmlgraph diff examples/ramp.yaml --device cpu
    """
    from dmlgraph.measure.diff import Side
    from dmlgraph.measure.diff import diff as find_difference
    from dmlgraph.measure.ulp import Tolerance

    if len(devices) > 2:
        raise click.BadParameter(f"takes one or two devices, not {len(devices)}", param_hint="--device")
    if len(devices) == 1 and no_fuse:
        raise click.UsageError("one --device compares fused and not fused: --no-fuse leaves nothing to compare")
    choices = [chosen(device) for device in devices]
    graph = load_graph(file, dims, choices)
    tell(graph.warnings())
    arrays = complete_inputs(graph, inputs)
    sides = (
        (Side(choices[0], not no_fuse), Side(choices[1], not no_fuse))
        if len(choices) == 2
        else (Side(choices[0], False), Side(choices[0], True))
    )
    with Report(place=graph.origin.located):
        found = find_difference(graph, sides, arrays, Tolerance(ulp, relative, absolute))
    for side, reason in zip(found.sides, found.reasons, strict=True):
        click.echo(f"{side} ({reason})", err=True)
    click.echo("\n".join(_report(graph, found)))
    if not found.equal:
        if not is_stdin(file):
            click.echo(f"rounding, or a fault? dmlgraph doctor {file} --device {choices[-1].name}", err=True)
        ctx.exit(1)


def _report(graph: Graph, found: Difference) -> Iterator[str]:
    from dmlgraph.measure.diff import labels_of_states
    from dmlgraph.measure.report import cause, of_outputs

    descs = graph.output_descs | {label: state.desc for label, state in labels_of_states(graph).items()}
    yield from of_outputs(descs, found.outputs)
    nans = sum(comparison.nans for comparison in found.outputs.values())
    if nans:
        yield f"{nans} NaN{'s have' if nans > 1 else ' has'} other bits; they count as equal"
    if not found.equal:
        yield ""
        yield from cause(graph, found)
