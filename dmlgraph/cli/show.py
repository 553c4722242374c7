"""`dmlgraph show`: draws a graph."""

from __future__ import annotations

import pathlib
import sys
from typing import TYPE_CHECKING

import click

from dmlgraph.base.errors import plural
from dmlgraph.base.report import Report
from dmlgraph.cli.options import is_stdin, load_graph, with_dims, with_output, writing
from dmlgraph.cli.output import print_document
from dmlgraph.cli.parameter_types import GRAPH
from dmlgraph.files.whole import write_text

if TYPE_CHECKING:
    from dmlgraph.picture import View

FORMATS = ("svg", "html", "dot", "mermaid")  # as in dmlgraph.picture, which is slow to import
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
@with_dims
def show(
    file: pathlib.Path,
    output: pathlib.Path | None,
    format_: str | None,
    view: View | None,
    dims: dict[str, int],
) -> None:
    """Draw a graph.

    SVG is a picture for any browser; HTML is a page for exploring a large graph: find a node, see all its fields, open
    scopes and fused nodes.  DOT and Mermaid are for other programs.  Without -o the picture is printed, as Mermaid
    unless --format says otherwise.

    \b
    Examples:
      dmlgraph show examples/ramp.yaml -o ramp.svg
      dmlgraph show examples/digits/digits.yaml --before-after -o digits.html
      dmlgraph show examples/ramp.yaml --format dot
    """
    from dmlgraph import picture

    if output is not None and format_ is not None:
        raise click.UsageError("the name of -o sets the format: leave out --format")
    graph = load_graph(file, dims)
    format_ = format_ or (PRINTED if output is None else picture.format_of(output))
    with Report(place=graph.origin.located):
        text = picture.render(graph, format_, view=view or "source")
    if output is not None:
        with writing(output):
            write_text(output, text)
        click.echo(f"{output}: {plural(len(text.encode()), 'byte', ',')}", err=True)
        return
    print_document(text)
    if sys.stdout.isatty() and not is_stdin(file):
        click.echo(f"for a picture: dmlgraph show {file} -o {file.stem}.svg, or .html", err=True)
