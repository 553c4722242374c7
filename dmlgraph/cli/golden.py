"""`dmlgraph golden`: records the values of a graph, to compare them elsewhere."""

from __future__ import annotations

import pathlib

import click

from dmlgraph.base.errors import plural
from dmlgraph.base.report import Report
from dmlgraph.cli.array_options import ArrayFile, complete_inputs, with_inputs
from dmlgraph.cli.graph_files import load_graph
from dmlgraph.cli.messages import tell
from dmlgraph.cli.model_options import with_dims
from dmlgraph.cli.options import chosen, with_device, with_force, with_output, writing
from dmlgraph.cli.parameter_types import GRAPH


@click.command()
@click.argument("file", type=GRAPH)
@with_output("The file to write, a .npz.", required=True)
@with_device("Where to run.", default="reference", show_default=True)
@click.option(
    "--keep",
    "names",
    multiple=True,
    metavar="NAME",
    help="Record this value between nodes, named as in the graph file; without it, all.",
)
@with_force
@with_inputs
@with_dims
def golden(
    file: pathlib.Path,
    output: pathlib.Path,
    device: str,
    names: tuple[str, ...],
    force: bool,
    inputs: dict[str, ArrayFile],
    dims: dict[str, int],
) -> None:
    """Record the values of a graph, to compare elsewhere.

    The file has the inputs, the outputs and the values between nodes by their names, and a digest that tells graphs
    apart.  `dmlgraph doctor --golden FILE` compares with it.  Inputs that are not given are filled with random numbers,
    the same every time.

    \b
    Example:
      dmlgraph golden examples/ramp.yaml -o values.npz
    """
    from dmlgraph.doctor.golden import check_recorded, record

    if not force:
        with writing(output):
            check_recorded(output)
    choice = chosen(device)
    graph = load_graph(file, dims, [choice])
    tell(graph.warnings())
    arrays = complete_inputs(graph, inputs)
    with Report(place=graph.origin.located):
        values = record(graph, choice, arrays, names or None)
    with writing(output):
        values.save(output)
    click.echo(f"{output}: {plural(len(values.values), 'value')}")
