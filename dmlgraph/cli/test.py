"""`dmlgraph test`: runs the tests in graph files."""

from __future__ import annotations

import collections
import pathlib
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from dmlgraph.cli.completion import complete_devices
from dmlgraph.cli.messages import tell, visible
from dmlgraph.cli.options import (
    GRAPHS,
    each_graph_file,
    each_size,
    load_graph,
    shown,
    skipping_others,
    with_sizes,
    writing,
)
from dmlgraph.errors import DeviceError, DmlGraphError, plural
from dmlgraph.files import write_text

if TYPE_CHECKING:
    from dmlgraph.testing.junit import Record

LEFT_OUT, WITHOUT = "left out", "without tests"  # what the summary counts besides outcomes


def _check_devices(_: click.Context, __: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    if names:
        from dmlgraph.devices import check_name

        for name in names:
            try:
                check_name(name)
            except DeviceError as error:
                raise click.BadParameter(f"'{name}' {error.problems[0].message}; allowed: {error.allowed}") from None
    return names


@click.command()
@click.argument("files", type=GRAPHS, nargs=-1, required=True, metavar="FILE…")
@click.option("-k", "names", multiple=True, metavar="NAME", help="Run only the tests with this text in their names.")
@click.option(
    "--device",
    "devices",
    multiple=True,
    callback=_check_devices,
    shell_complete=complete_devices,
    help="Run only on this one of the devices that a test names.",
)
@click.option(
    "--junit",
    type=click.Path(dir_okay=False, path_type=pathlib.Path),
    metavar="FILE.xml",
    help="Write the results as JUnit XML, for continuous integration.",
)
@skipping_others
@with_sizes("the tests run")
@click.pass_context
def test(
    ctx: click.Context,
    files: tuple[pathlib.Path, ...],
    names: tuple[str, ...],
    devices: tuple[str, ...],
    junit: pathlib.Path | None,
    skip_others: bool,
    dims: dict[str, list[int]],
) -> None:
    """Run the tests in graph files.

    A test runs on every device that it names, or else on all devices of this machine that can run the graph.  It is
    skipped where its device is not here.  A test that fails shows the outputs that differ, with the values around the
    element that differs most, and the first node that differs.  The exit status is 1 if a test fails or a file is
    wrong.  A file without tests is not a failure, but -k and --device must leave a test to run.

    A folder stands for all graph files in it and below it; '-' is standard input.  --dim sets dims that a test does not
    set itself.

    \b
    Examples:
      dmlgraph test examples/ramp.yaml
      dmlgraph test examples --device cpu --junit results.xml
      dmlgraph test examples/ramp.yaml -k ones
    """
    from dmlgraph.testing.junit import document

    paths = each_graph_file(files, skip_others)
    records: list[Record] = []
    tally = collections.Counter[str]()
    for path in paths:
        try:
            found, left_out = _test(path, names, devices, dims)
        except DmlGraphError as error:
            tell(error.problems)
            found, left_out = [_broken(path, error)], 0
        if not found and not left_out:
            click.echo(f"{shown(path)}: no tests")
            tally[WITHOUT] += 1
        records += found
        tally[LEFT_OUT] += left_out
    if junit is not None:
        with writing(junit):
            write_text(junit, document(records))
    if not records and tally[LEFT_OUT]:
        raise click.UsageError(f"-k and --device leave none of {plural(tally[LEFT_OUT], 'test')}")
    if records or len(paths) > 1:
        click.echo(_summary(records, tally))
    if any(record.is_failure for record in records):
        ctx.exit(1)


def _test(
    path: pathlib.Path, names: Sequence[str], devices: Sequence[str], dims: dict[str, list[int]]
) -> tuple[list[Record], int]:
    """Runs the tests of a file; returns their results, and how many tests were left out."""
    from dmlgraph.testing.junit import Record
    from dmlgraph.testing.run import Outcome, Runner, cases

    records: list[Record] = []
    left_out = 0
    for sizes, where in each_size(dims):
        graph = load_graph(path, sizes)
        with Runner(graph) as runner:
            for case in cases(graph):
                chosen = not names or any(name.lower() in case.name.lower() for name in names)
                if not chosen or (devices and case.device not in devices):
                    left_out += 1
                    continue
                name = f"{case.name} {where}".rstrip()
                result = runner.run(case)
                records.append(Record(shown(path), name, result))
                line = f"{shown(path)}::{name} {result.outcome}"
                if result.outcome is Outcome.SKIPPED:
                    line += f": {result.report}"
                click.echo(visible(line))
                if result.outcome is Outcome.FAILED:
                    click.echo(textwrap.indent(result.report, "  "))
    return records, left_out


def _broken(path: pathlib.Path, error: DmlGraphError) -> Record:
    """The record of a file that is wrong, so that none of its tests ran."""
    from dmlgraph.testing.junit import Record

    return Record(shown(path), "the file", None, str(error))


def _summary(records: Sequence[Record], tally: Mapping[str, int]) -> str:
    outcomes = collections.Counter(record.result.outcome for record in records if record.result is not None)
    parts = [f"{count} {outcome}" for outcome, count in sorted(outcomes.items())]
    parts += [f"{tally[LEFT_OUT]} left out"] if tally[LEFT_OUT] else []
    wrong = sum(record.result is None for record in records)
    parts += [f"{plural(wrong, 'file')} with errors"] if wrong else []
    parts += [f"{plural(tally[WITHOUT], 'file')} without tests"] if tally[WITHOUT] else []
    return ", ".join(parts)
