"""`dmlgraph check`: reports every error of graph files."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from dmlgraph.base.errors import DmlGraphError, GraphError, Problem, plural
from dmlgraph.base.report import Report
from dmlgraph.cli import check_formats, reports
from dmlgraph.cli.graph_files import graph_files_of, load_graph
from dmlgraph.cli.messages import tell
from dmlgraph.cli.model_options import each_size, with_sizes
from dmlgraph.cli.options import skipping_others
from dmlgraph.cli.output import print_document
from dmlgraph.cli.parameter_types import GRAPHS
from dmlgraph.cli.standard_input import shown

if TYPE_CHECKING:
    from dmlgraph.compiler.desc import GraphDesc


@dataclasses.dataclass(frozen=True, slots=True)
class Checked:
    """A file with one value for each dim.

    Attributes:
        file: as it was given.
        where: the values of the dims, for people; empty if there is one combination.
        warnings: those that an earlier combination did not have.
        errors: what is wrong.
        warned: whether it has warnings, those of earlier combinations too.
        nodes, level: of the lowered graph, without fusion; None if it is wrong.
        operators: in the file; views among them need no nodes.
        needed: the DirectML that it needs, in words; None unless that is asked for.
    """

    file: str
    where: str
    warnings: Sequence[Problem]
    errors: Sequence[Problem] = ()
    warned: bool = False
    nodes: int | None = None
    level: str | None = None
    operators: int | None = None
    needed: str | None = None

    @property
    def plain(self) -> reports.Plain:
        """Its shape in a report."""
        problems = [reports.problem(each) for each in (*self.errors, *self.warnings)]
        status = "wrong" if self.errors else "fine"
        counts = {"operators": self.operators, "nodes": self.nodes, "level": self.level}
        return {"file": self.file, "status": status, **counts, "problems": problems}


@click.command()
@click.argument("files", type=GRAPHS, nargs=-1, required=True, metavar="FILE…")
@click.option("--strict", is_flag=True, help="Exit with status 1 on warnings, too.")
@click.option("--needs", is_flag=True, help="Say which DirectML, and which Windows, each graph needs.")
@click.option(
    "--format",
    "form",
    type=click.Choice(("text", "json", "github", "sarif")),
    default="text",
    show_default=True,
    help="text for people, json for programs, github for annotations of a workflow, sarif for code scanning.",
)
@click.option("--json", "form", flag_value="json", help="The same as --format json.")
@skipping_others
@with_sizes("the graph is checked")
@click.pass_context
def check(
    ctx: click.Context,
    files: tuple[pathlib.Path, ...],
    strict: bool,
    needs: bool,
    form: str,
    skip_others: bool,
    dims: dict[str, list[int]],
) -> None:
    """Report every error and warning of graph files.

    Each is printed as FILE:LINE:COLUMN: error[code]: message, with the source line, what is allowed and what to do.  A
    warning is for something legal that is probably a mistake, such as a node on which no output depends.  The tests in
    a file are checked, too, and the files that they name.

    A folder stands for all graph files in it and below it: the .yaml and .yml files with the key 'dmlgraph', or with
    nodes and outputs and without it.  '-' is standard input.  With several values for dims every combination is
    checked, and the first that is wrong is reported.

    \b
    Examples:
      dmlgraph check examples/ramp.yaml
      dmlgraph check --needs examples/ramp.yaml
      dmlgraph check examples other.yaml
      dmlgraph check --dim N=1,8,64 examples/ramp.yaml
      dmlgraph check --strict examples/ramp.yaml
      dmlgraph check --format github examples
    """
    paths, skipped = graph_files_of(files, skip_others)
    results = [_told(each, form, strict) for path in paths for each in _checked(path, dims, needs)]
    if form != "text":
        merged = _by_file(results)
        render = {"json": _json, "github": check_formats.github, "sarif": check_formats.sarif}[form]
        print_document(render(merged, skipped))
    wrong = len({each.file for each in results if each.errors})
    if len(paths) > 1:
        wrong_ones = f", {wrong} with errors" if wrong else ""
        click.echo(f"{plural(len(paths), 'file')} checked{wrong_ones}", err=True)
    warned = strict and any(each.warned for each in results)
    if warned:
        tell(GraphError("--strict counts warnings as errors", code="strict").problems)
    if wrong or warned:
        ctx.exit(1)


def _checked(path: pathlib.Path, dims: Mapping[str, Sequence[int]], needs: bool) -> Iterator[Checked]:
    """The file with every combination of sizes, up to the first that is wrong."""
    known: set[str] = set()
    for index, (sizes, where) in enumerate(each_size(dims)):
        try:
            result = _check(path, sizes, where, known, needs, tests=not index)
        except DmlGraphError as error:
            yield Checked(shown(path), where, (), error.problems)
            return
        known |= {str(each) for each in result.warnings}
        yield result


def _check(
    path: pathlib.Path, dims: Mapping[str, int], where: str, known: set[str], needs: bool, *, tests: bool
) -> Checked:
    """The file with one value for each dim, without the warnings that are `known`."""
    from dmlgraph.graph.nodes import operator_count

    graph = load_graph(path, dims)
    with Report(place=graph.origin.located):
        desc = graph.lower(fuse=False)
    if tests and graph.origin.tests:
        from dmlgraph.formats.yaml.tests import check_tests

        check_tests(graph)
    warnings = {str(warning): warning for warning in graph.warnings()}
    new = [warning for text, warning in warnings.items() if text not in known]
    operators = operator_count(graph.nodes)
    needed = _needed_by(desc) if needs else None
    return Checked(shown(path), where, new, (), bool(warnings), len(desc.nodes), str(desc.level), operators, needed)


def _needed_by(desc: GraphDesc) -> str:
    """Which DirectML, and which Windows, a lowered graph needs."""
    from dmlgraph.base.levels import FeatureLevel
    from dmlgraph.compiler.desc import OperatorDescNode
    from dmlgraph.devices.directml.versions import needed_by
    from dmlgraph.formats.cpp.lowered import LEAST_LEVEL

    operators = [node.operator for node in desc.nodes if isinstance(node, OperatorDescNode)]
    levels = (level for level in FeatureLevel if level >= LEAST_LEVEL)
    level = min(level for level in levels if not any(each.level_problems(level) for each in operators))
    return f"feature level {level}, {needed_by(level)}"


def _told(result: Checked, form: str, strict: bool) -> Checked:
    """Prints what became of a file, if that is for people."""
    if form != "text":
        return result
    if result.errors and result.where:
        click.echo(f"{result.where}:", err=True)
    tell((*result.warnings, *result.errors))
    if not result.errors and not (result.warned and strict):
        at = f" {result.where}" if result.where else ""
        count, operators = result.nodes or 0, result.operators or 0
        nodes = plural(count, "node")
        if count < operators:  # people compare it with what `import` printed
            nodes += f" from {plural(operators, 'operator')}"
        click.echo(f"{result.file}: fine{at}: {nodes} at feature level {result.level}")
        if result.needed:
            click.echo(f"{result.file}: needs {result.needed}")
    return result


def _by_file(results: Sequence[Checked]) -> list[Checked]:
    """One result for each file, with the problems of all combinations of sizes."""
    merged: dict[str, Checked] = {}
    for each in results:
        before = merged.get(each.file)
        warnings = (*before.warnings, *each.warnings) if before else each.warnings
        merged[each.file] = dataclasses.replace(each, warnings=warnings)
    return list(merged.values())


def _json(results: Sequence[Checked], skipped: Sequence[pathlib.Path]) -> str:
    return reports.text("check", reports.checked([each.plain for each in results], skipped))
