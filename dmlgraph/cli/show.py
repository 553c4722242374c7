"""`dmlgraph show`: draws a graph."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from dmlgraph.base.errors import DmlGraphError, plural
from dmlgraph.base.report import Report
from dmlgraph.cli.array_options import ArrayFile, complete_inputs, with_inputs
from dmlgraph.cli.graph_files import load_graph
from dmlgraph.cli.model_options import with_dims
from dmlgraph.cli.options import chosen, with_device, with_output, writing
from dmlgraph.cli.output import print_document
from dmlgraph.cli.parameter_types import GRAPH
from dmlgraph.cli.standard_input import is_stdin
from dmlgraph.files.whole import write_text

if TYPE_CHECKING:
    from dmlgraph.devices import Choice
    from dmlgraph.graph.graph import Graph
    from dmlgraph.picture import Overlay, View

FORMATS = ("svg", "html", "dot", "mermaid")  # as in dmlgraph.picture, which is slow to import
DEVICES = {"fusion": 0, "times": 1, "values": 1, "differences": 2}  # overlay → on how many devices the graph runs
OVERLAYS = tuple(DEVICES)
PRINTED = "mermaid"  # the default without a file and a format: readable, and can be pasted into Markdown


def _check_name(_: click.Context, __: click.Parameter, value: pathlib.Path | None) -> pathlib.Path | None:
    if value is None:
        return None
    from dmlgraph.picture import SUFFIXES

    if value.suffix.lower() not in SUFFIXES:
        raise click.BadParameter(f"the name '{value}' must end in one of {', '.join(SUFFIXES)}")
    return value


@click.command()
@click.argument("file", type=GRAPH)
@with_output("The picture to write; its suffix is the format: .svg, .html, .dot or .mmd.", callback=_check_name)
@click.option("--format", "format_", type=click.Choice(FORMATS), help="Print the picture in this format.")
@click.option("--fused", "view", flag_value="fused", help="Draw the fused graph.")
@click.option("--before-after", "view", flag_value="both", help="Draw the graph and the fused graph side by side.")
@click.option(
    "--over",
    type=click.Choice(OVERLAYS),
    help="Lay over the picture what fusion made of each node, or run the graph and lay over it the times, ranges of "
    "values, or differences of two devices, node by node.",
)
@with_device("Where --over runs the graph; twice for differences.", "devices", multiple=True)
@with_inputs
@with_dims
def show(
    file: pathlib.Path,
    output: pathlib.Path | None,
    format_: str | None,
    view: View | None,
    over: str | None,
    devices: tuple[str, ...],
    inputs: dict[str, ArrayFile],
    dims: dict[str, int],
) -> None:
    """Draw a graph.

    SVG is a picture for any browser; HTML is a page for exploring a large graph: find a node, see all its fields, open
    scopes and fused nodes.  DOT and Mermaid are for other programs.  Without -o the picture is printed, as Mermaid
    unless --format says otherwise.  Where --over runs the graph, inputs that are not given are filled with random
    numbers, the same every time; values and differences are those of the graph without fusion.

    \b
    Examples:
      dmlgraph show examples/ramp.yaml -o ramp.svg
      dmlgraph show examples/digits/digits.yaml --before-after -o digits.html
      dmlgraph show examples/ramp.yaml --format dot
      dmlgraph show examples/digits/digits.yaml --over times --device cpu -o times.svg
      dmlgraph show examples/digits/digits.yaml --over differences --device cpu --device reference -o differences.html
    """
    from dmlgraph import picture

    if output is not None and format_ is not None:
        raise click.UsageError("the name of -o sets the format: leave out --format")
    count = DEVICES[over] if over else 0
    if len(devices) > count or (count == 2 and len(devices) != 2):
        wanted = {0: "no --device", 1: "one --device", 2: "two --device"}[count]
        raise click.UsageError(f"{f'--over {over}' if over else 'without --over, show'} takes {wanted}")
    if inputs and not count:
        raise click.UsageError("--input is for --over times, values and differences, which run the graph")
    choices = [chosen(name) for name in (devices or ("auto",) * count)]
    graph = load_graph(file, dims, choices)
    format_ = format_ or (PRINTED if output is None else picture.format_of(output))
    with Report(place=graph.origin.located):
        overlay = None if over is None else _overlay(over, graph, choices, inputs)
        text = picture.render(graph, format_, view=view or "source", over=overlay)
    if output is not None:
        with writing(output):
            write_text(output, text)
        click.echo(f"{output}: {plural(len(text.encode()), 'byte', ',')}", err=True)
        return
    print_document(text)
    if sys.stdout.isatty() and not is_stdin(file):
        click.echo(f"for a picture: dmlgraph show {file} -o {file.stem}.svg, or .html", err=True)


def _overlay(over: str, graph: Graph, choices: Sequence[Choice], inputs: dict[str, ArrayFile]) -> Overlay:
    """What is laid over the picture."""
    from dmlgraph.devices.compile import compile_graph, fuse_graph
    from dmlgraph.measure.diff import Side, inner_values
    from dmlgraph.measure.ulp import compare
    from dmlgraph.passes import fuse
    from dmlgraph.picture import sources

    if over == "fusion":
        return sources.fusion(fuse(graph))
    arrays = complete_inputs(graph, inputs)
    if over == "times":
        (choice,) = choices
        with compile_graph(graph, choice) as executable:
            executable.run(arrays)  # the first run may prepare what the others use
            steps = executable.profile(arrays)
        if steps is None:
            raise DmlGraphError(f"{choice.name} cannot measure the time of each node", code="unsupported")
        return sources.times(steps, fuse_graph(graph, choice.device, fuse=True).origins)
    runs = [inner_values(graph, Side(choice, fuse=False), arrays) for choice in choices]
    if over == "values":
        return sources.values((source.node, array) for source, array in runs[0])
    pairs = zip(*runs, strict=True)
    return sources.differences((source.node, compare(a, b)) for (source, a), (_, b) in pairs)
