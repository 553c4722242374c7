"""`dmlgraph check`: reports every error of graph files."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from dmlgraph.base.errors import DmlGraphError, GraphError, plural
from dmlgraph.base.report import Report
from dmlgraph.cli.messages import tell
from dmlgraph.cli.options import GRAPHS, each_graph_file, each_size, load_graph, shown, skipping_others, with_sizes

if TYPE_CHECKING:
    from dmlgraph.compiler.desc import GraphDesc


@click.command()
@click.argument("files", type=GRAPHS, nargs=-1, required=True, metavar="FILE…")
@click.option("--strict", is_flag=True, help="Exit with status 1 on warnings, too.")
@click.option("--needs", is_flag=True, help="Say which DirectML, and which Windows, each graph needs.")
@skipping_others
@with_sizes("the graph is checked")
@click.pass_context
def check(
    ctx: click.Context,
    files: tuple[pathlib.Path, ...],
    strict: bool,
    needs: bool,
    skip_others: bool,
    dims: dict[str, list[int]],
) -> None:
    """Report every error and warning of graph files.

    Each is printed as FILE:LINE:COLUMN: error[code]: message, with the source line, what is allowed and what to do.  A
    warning is for something legal that is probably a mistake, such as a node on which no output depends.  The tests in
    a file are checked, too, and the files that they name.

    A folder stands for all graph files in it and below it: the .yaml and .yml files with the key 'dmlgraph'.  '-' is
    standard input.  With several values for dims every combination is checked, and the first that is wrong is reported.

    \b
    Examples:
      dmlgraph check examples/ramp.yaml
      dmlgraph check --needs examples/ramp.yaml
      dmlgraph check examples other.yaml
      dmlgraph check --dim N=1,8,64 examples/ramp.yaml
      dmlgraph check --strict examples/ramp.yaml
    """
    wrong, warned = 0, False
    paths = each_graph_file(files, skip_others)
    for path in paths:
        told: set[str] = set()
        for index, (sizes, where) in enumerate(each_size(dims)):
            try:
                told |= _check(path, sizes, where, told, strict, needs, tests=not index)
            except DmlGraphError as error:
                if where:
                    click.echo(f"{where}:", err=True)
                tell(error.problems)
                wrong += 1
                break
        warned = warned or bool(told)
    if len(paths) > 1:
        wrong_ones = f", {wrong} with errors" if wrong else ""
        click.echo(f"{plural(len(paths), 'file')} checked{wrong_ones}", err=True)
    if warned and strict:
        tell(GraphError("--strict counts warnings as errors", code="strict").problems)
    if wrong or (warned and strict):
        ctx.exit(1)


def _check(
    file: pathlib.Path,
    dims: Mapping[str, int],
    where: str,
    told: set[str],
    strict: bool,
    needs: bool,
    *,
    tests: bool,
) -> set[str]:
    """Checks a file with one value for each dim; returns its warnings, of which those in `told` are not repeated."""
    graph = load_graph(file, dims)
    with Report(place=graph.origin.located):
        desc = graph.lower(fuse=False)
    if tests and graph.origin.tests:
        from dmlgraph.formats.yaml.tests import check_tests

        check_tests(graph)
    warnings = {str(warning): warning for warning in graph.warnings()}
    tell([warning for text, warning in warnings.items() if text not in told])
    if not (warnings and strict):
        at = f" {where}" if where else ""
        click.echo(f"{shown(file)}: fine{at}: {plural(len(desc.nodes), 'node')} at feature level {desc.level}")
        if needs:
            click.echo(f"{shown(file)}: needs {_needed_by(desc)}")
    return set(warnings)


def _needed_by(desc: GraphDesc) -> str:
    """Which DirectML, and which Windows, a lowered graph needs."""
    from dmlgraph.base.levels import FeatureLevel
    from dmlgraph.compiler.desc import OperatorDescNode
    from dmlgraph.devices.directml.versions import needed_by

    operators = [node.operator for node in desc.nodes if isinstance(node, OperatorDescNode)]
    level = min(level for level in FeatureLevel if not any(each.level_problems(level) for each in operators))
    return f"feature level {level}, {needed_by(level)}"
