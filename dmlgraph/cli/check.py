"""`dmlgraph check`: every error of a graph file."""

from __future__ import annotations

import pathlib

import click

from dmlgraph.cli.options import FILE, with_dims
from dmlgraph.document import load


@click.command()
@click.argument("file", type=FILE)
@with_dims
def check(file: pathlib.Path, dims: dict[str, int]) -> None:
    """Report every error of a graph file at once.

    Each is told as FILE:LINE:COLUMN: error: what is wrong, and what is allowed.

    \b
    Example:
      dmlgraph check examples/ramp.yaml
    """
    graph = load(file, dims=dims)
    desc = graph.lower()
    click.echo(f"{file}: fine: {len(desc.nodes)} nodes at feature level {desc.level}")
