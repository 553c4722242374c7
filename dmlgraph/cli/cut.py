"""`dmlgraph cut`: a part of a graph as a graph of its own."""

from __future__ import annotations

import pathlib

import click

from dmlgraph.base.errors import listing
from dmlgraph.base.report import Report
from dmlgraph.cli.array_options import split_pair
from dmlgraph.cli.graph_files import load_graph
from dmlgraph.cli.model_options import with_dims
from dmlgraph.cli.options import with_force, with_output, writing
from dmlgraph.cli.parameter_types import GRAPH


def _parse_values(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> dict[str, str] | list[str]:
    """References, or `NAME=REFERENCE` pairs."""
    if not any("=" in each for each in given):
        return list(given)
    return dict(split_pair(each if "=" in each else f"{each}={each}", "REFERENCE or NAME=REFERENCE") for each in given)


@click.command()
@click.argument("file", type=GRAPH)
@click.option(
    "--outputs",
    multiple=True,
    required=True,
    callback=_parse_values,
    metavar="[NAME=]REFERENCE",
    help="A value that the part computes: a node, `node.output_index`, or an output of the graph; may be repeated.",
)
@click.option(
    "--inputs",
    multiple=True,
    callback=_parse_values,
    metavar="[NAME=]REFERENCE",
    help="A value that the part is given: an input in its place; may be repeated.",
)
@with_output("The file to write, by its suffix a graph file, .onnx or .json for DxDispatch.", required=True)
@with_force
@with_dims
def cut(
    file: pathlib.Path,
    outputs: dict[str, str] | list[str],
    inputs: dict[str, str] | list[str],
    output: pathlib.Path,
    force: bool,
    dims: dict[str, int],
) -> None:
    """Write a part of a graph as a graph of its own.

    It has what the outputs need, as far as the inputs: dims, states, constants, and those inputs of the whole that are
    still read.

    \b
    Examples:
      dmlgraph cut examples/digits/digits.yaml --outputs pooled -o features.yaml
      dmlgraph cut examples/digits/digits.yaml --outputs digit --inputs features=pooled -o head.yaml
    """
    from dmlgraph.formats.load_save import save
    from dmlgraph.graph.nodes import counted

    graph = load_graph(file, dims)
    with Report(place=graph.origin.located):
        part = graph.cut(outputs, inputs)
    with writing(output):
        save(part, output, force=force)
    read = listing(node.name for node in part.inputs) or "nothing"
    click.echo(f"{output}: written, {counted(part.nodes)}; it reads {read}")
