"""`dmlgraph lower`: the DML_GRAPH_DESC as text."""

from __future__ import annotations

import pathlib

import click

from dmlgraph.cli.options import FILE, with_dims
from dmlgraph.document import load


@click.command()
@click.argument("file", type=FILE)
@with_dims
def lower(file: pathlib.Path, dims: dict[str, int]) -> None:
    """Print the DML_GRAPH_DESC of a graph.

    It holds every node with every field of its C struct, and the edges.

    \b
    Example:
      dmlgraph lower examples/ramp.yaml --dim N=4
    """
    click.echo(str(load(file, dims=dims).lower()), nl=False)
