"""`dmlgraph check`: reports every error of a graph file."""

from __future__ import annotations

import pathlib

import click

from dmlgraph.cli.messages import tell
from dmlgraph.cli.options import FILE, with_dims
from dmlgraph.errors import GraphError, Within, plural


@click.command()
@click.argument("file", type=FILE)
@click.option("--strict", is_flag=True, help="Exit with status 1 on warnings, too.")
@with_dims
def check(file: pathlib.Path, strict: bool, dims: dict[str, int]) -> None:
    """Report every error and warning of a graph file.

    Each is printed as FILE:LINE:COLUMN: error[code]: message, with the source line, what is allowed and what to do.  A
    warning is for something legal that is probably a mistake, such as a node on which no output depends.

    \b
    Examples:
      dmlgraph check examples/ramp.yaml
      dmlgraph check --strict examples/ramp.yaml
    """
    from dmlgraph.document import load

    graph = load(file, dims=dims)
    with Within(place=graph.located):
        desc = graph.lower(fuse=False)
    warnings = graph.warnings()
    tell(warnings)
    if warnings and strict:
        raise GraphError("--strict counts warnings as errors", code="strict")
    click.echo(f"{file}: fine: {plural(len(desc.nodes), 'node')} at feature level {desc.level}")
