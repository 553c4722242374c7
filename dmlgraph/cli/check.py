"""`dmlgraph check`: reports every error of a graph file."""

from __future__ import annotations

import contextlib
import itertools
import math
import pathlib
from collections.abc import Iterator

import click

from dmlgraph.cli.messages import tell
from dmlgraph.cli.options import FILE, named_sizes
from dmlgraph.errors import DmlGraphError, GraphError, Within, plural

MOST_COMBINATIONS = 1000


def _parse_sizes(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, list[int]]:
    """`N=1,8,64`: the sizes to check by name."""
    dims: dict[str, list[int]] = {}
    for value in values:
        name, sizes = named_sizes(value)
        if not sizes:
            raise click.BadParameter(f"'{value}' is not NAME=SIZE or NAME=SIZE,SIZE, such as N=1,8,64")
        dims[name] = sizes
    if math.prod(map(len, dims.values())) > MOST_COMBINATIONS:
        raise click.BadParameter(f"there are more than {MOST_COMBINATIONS} combinations of sizes")
    return dims


@click.command()
@click.argument("file", type=FILE)
@click.option("--strict", is_flag=True, help="Exit with status 1 on warnings, too.")
@click.option(
    "--dim",
    "dims",
    multiple=True,
    callback=_parse_sizes,
    metavar="NAME=SIZE,…",
    help="Other values for a dim; the graph is checked with each.",
)
def check(file: pathlib.Path, strict: bool, dims: dict[str, list[int]]) -> None:
    """Report every error and warning of a graph file.

    Each is printed as FILE:LINE:COLUMN: error[code]: message, with the source line, what is allowed and what to do.  A
    warning is for something legal that is probably a mistake, such as a node on which no output depends.

    With several values for dims every combination is checked, and the first that is wrong is reported.

    \b
    Examples:
      dmlgraph check examples/ramp.yaml
      dmlgraph check --dim N=1,8,64 examples/ramp.yaml
      dmlgraph check --strict examples/ramp.yaml
    """
    told: set[str] = set()
    several = any(len(each) > 1 for each in dims.values())
    for sizes in itertools.product(*dims.values()):
        chosen = dict(zip(dims, sizes, strict=True))
        where = f" with {', '.join(f'{dim}={size}' for dim, size in chosen.items())}" if several else ""
        told |= _check(file, chosen, where, told, strict)
    if told and strict:
        raise GraphError("--strict counts warnings as errors", code="strict")


def _check(file: pathlib.Path, dims: dict[str, int], where: str, told: set[str], strict: bool) -> set[str]:
    """Checks a file with one value for each dim; returns its warnings, of which those in `told` are not repeated."""
    from dmlgraph.document import load

    with _saying(where):
        graph = load(file, dims=dims)
        with Within(place=graph.located):
            desc = graph.lower(fuse=False)
    warnings = {str(warning): warning for warning in graph.warnings()}
    tell([warning for text, warning in warnings.items() if text not in told])
    if not (warnings and strict):
        click.echo(f"{file}: fine{where}: {plural(len(desc.nodes), 'node')} at feature level {desc.level}")
    return set(warnings)


@contextlib.contextmanager
def _saying(where: str) -> Iterator[None]:
    """Says with which dims a graph is wrong, where it was checked with several."""
    try:
        yield
    except DmlGraphError:
        if where:
            click.echo(f"{where.strip()}:", err=True)
        raise
