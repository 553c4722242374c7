"""`dmlgraph show`: a picture of a graph."""

from __future__ import annotations

import pathlib
import sys
from typing import TYPE_CHECKING

import click

from dmlgraph.cli.options import FILE, with_dims, writing
from dmlgraph.errors import Within, plural
from dmlgraph.files import write_text

if TYPE_CHECKING:
    from dmlgraph.picture import View

FORMATS = ("svg", "html", "dot", "mermaid")  # those of dmlgraph.picture, which takes long to import
PRINTED = "mermaid"  # without a file and a format: what can be read, and pasted into Markdown


def _check_name(_: click.Context, __: click.Parameter, value: pathlib.Path | None) -> pathlib.Path | None:
    if value is None:
        return None
    from dmlgraph.picture import SUFFIXES

    if value.suffix.lower() not in SUFFIXES:
        raise click.BadParameter(f"the name '{value}' ends in none of {', '.join(SUFFIXES)}")
    return value


@click.command()
@click.argument("file", type=FILE)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=pathlib.Path),
    callback=_check_name,
    help="The picture to write, of the format of its name: .svg, .html, .dot or .mmd.",
)
@click.option("--format", "format_", type=click.Choice(FORMATS), help="Print the picture in this format.")
@click.option("--fused", "view", flag_value="fused", help="Draw what fusion makes of the graph.")
@click.option("--before-after", "view", flag_value="both", help="Draw the graph and, beside it, the fused one.")
@with_dims
def show(
    file: pathlib.Path,
    output: pathlib.Path | None,
    format_: str | None,
    view: View | None,
    dims: dict[str, int],
) -> None:
    """Draw a graph.

    SVG is a picture that every browser shows; HTML is a page to walk through a large graph in: find a node, see all
    its fields, open what was fused.  DOT and Mermaid are for other programs.  Without -o the picture is printed, as
    Mermaid unless --format says otherwise.

    \b
    Examples:
      dmlgraph show examples/ramp.yaml -o ramp.svg
      dmlgraph show examples/digits/digits.yaml --before-after -o digits.html
      dmlgraph show examples/ramp.yaml --format dot
    """
    from dmlgraph import picture
    from dmlgraph.document import load

    if output is not None and format_ is not None:
        raise click.UsageError("-o says the format by its name; leave --format away")
    graph = load(file, dims=dims)
    format_ = format_ or (PRINTED if output is None else picture.format_of(output))
    with Within(place=graph.located):
        text = picture.render(graph, format_, view=view or "source")
    if output is not None:
        with writing(output):
            write_text(output, text)
        click.echo(f"{output}: {plural(len(text.encode()), 'byte', ',')}", err=True)
        return
    click.echo(text, nl=False)
    if sys.stdout.isatty():
        click.echo(f"a picture to look at: dmlgraph show {file} -o {file.stem}.svg, or .html", err=True)
