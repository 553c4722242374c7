"""`dmlgraph test`: runs the tests in graph files."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import pathlib
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TextIO

import click

from dmlgraph.base.errors import DeviceError, DmlGraphError, plural
from dmlgraph.cli.graph_files import each_graph_file, load_graph
from dmlgraph.cli.messages import tell, visible
from dmlgraph.cli.model_options import with_sizes
from dmlgraph.cli.options import permissions, remark_on, skipping_others, with_device, with_permissions, writing
from dmlgraph.cli.parameter_types import FILE, GRAPHS, NEW_FILE, Number, Whole
from dmlgraph.cli.standard_input import is_stdin, read_stdin, shown
from dmlgraph.files.whole import write_text

if TYPE_CHECKING:
    from dmlgraph.testing.allowances import Allowances
    from dmlgraph.testing.records import Record
    from dmlgraph.testing.subprocess_runner import How
    from dmlgraph.testing.test_subjects import Subject

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


@dataclasses.dataclass(frozen=True, slots=True)
class _Wanted:
    """What to test, and how.

    Attributes:
        paths: of the graph files.
        names: texts in the names of tests.
        devices: names.
        dims: sizes by name.
        seconds: that a test may take in a process of its own; None if that is not limited.
        how: whether the doctor examines graphs, and what DirectML may do.
        quiet: whether only failures and the summary are printed.
        tally: counts what the summary counts besides outcomes.
    """

    paths: Sequence[pathlib.Path]
    names: Sequence[str]
    devices: Sequence[str]
    dims: Mapping[str, Sequence[int]]
    seconds: float | None
    how: How
    quiet: bool
    tally: collections.Counter[str]


@click.command()
@click.argument("files", type=GRAPHS, nargs=-1, required=True, metavar="FILE…")
@click.option("-k", "names", multiple=True, metavar="NAME", help="Run only the tests with this text in their names.")
@with_device(
    "Run only on this one of the devices that a test names.", "devices", multiple=True, callback=_check_devices
)
@click.option("--scheduler", metavar="ADDRESS", help="Run on the machines of a Dask cluster, such as tcp://lab:8786.")
@click.option("--workers", type=Whole(min=1), metavar="N", help="Run in N worker processes of this machine.")
@click.option(
    "--time-limit",
    "seconds",
    type=Number(min=0, min_open=True),
    metavar="S",
    help="Run each test in a process of its own, which is killed after S seconds.  On a cluster 300 if not given.",
)
@click.option(
    "--doctor", is_flag=True, help="Examine the nodes of each graph as 'dmlgraph doctor' does, in place of its tests."
)
@click.option(
    "--allow-failures",
    "allowed",
    type=FILE,
    metavar="FILE.yaml",
    help="Tests that are allowed to fail, each with the reason.",
)
@click.option(
    "--junit", type=NEW_FILE, metavar="FILE.xml", help="Write the results as JUnit XML, for continuous integration."
)
@click.option("--jsonl", type=NEW_FILE, metavar="FILE.jsonl", help="Write each result as a line of JSON, as it comes.")
@click.option("--html", type=NEW_FILE, metavar="FILE.html", help="Draw the results, graph by device, as a page.")
@click.option("--quiet", is_flag=True, help="Print only failures and the summary.")
@skipping_others
@with_permissions
@with_sizes("the tests run")
@click.pass_context
def test(
    ctx: click.Context,
    files: tuple[pathlib.Path, ...],
    names: tuple[str, ...],
    devices: tuple[str, ...],
    scheduler: str | None,
    workers: int | None,
    seconds: float | None,
    doctor: bool,
    allowed: pathlib.Path | None,
    junit: pathlib.Path | None,
    jsonl: pathlib.Path | None,
    html: pathlib.Path | None,
    quiet: bool,
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

    With --scheduler or --workers the tests run on the devices of all machines of a cluster, each in a process of its
    own, and a graph without tests runs once on each device with random inputs.

    With --doctor each graph is examined on each device, and a failure says which node is computed wrong.

    \b
    Examples:
      dmlgraph test examples/moving_average.yaml
      dmlgraph test examples --device cpu --quiet --junit results.xml
      dmlgraph test examples/moving_average.yaml -k stays
      dmlgraph test models --scheduler tcp://lab:8786 --html matrix.html
      dmlgraph test examples/ramp.yaml --doctor --device cpu
    """
    from dmlgraph.testing.allowances import Allowances, read
    from dmlgraph.testing.subprocess_runner import SECONDS, How

    if scheduler is not None and workers is not None:
        raise click.UsageError("--scheduler and --workers exclude each other: a scheduler has its own workers")
    paths = each_graph_file(files, skip_others)
    how = How(doctor, **permissions())
    limit = SECONDS if doctor and seconds is None else seconds
    wanted = _Wanted(paths, names, devices, dims, limit, how, quiet, collections.Counter())
    may_fail = Allowances() if allowed is None else read(allowed)
    with _Lines(jsonl) as lines:
        records = _records(wanted, scheduler, workers, may_fail, lines.add)
        lines.replace(records)
    _write(records, junit, html)
    _conclude(wanted, records, may_fail)
    if any(record.is_failure for record in records):
        ctx.exit(1)


def _conclude(wanted: _Wanted, records: list[Record], may_fail: Allowances) -> None:
    """Says what became of all tests together.

    Raises:
        click.UsageError: the options leave no test.
    """
    tally = wanted.tally
    if not records and (tally[LEFT_OUT] or wanted.names):
        raise click.UsageError(f"-k and --device leave none of {plural(tally[LEFT_OUT], 'test')}")
    _remark(records, may_fail)
    if records or len(wanted.paths) > 1:
        click.echo(_summary(records, tally))


def _write(records: list[Record], junit: pathlib.Path | None, html: pathlib.Path | None) -> None:
    """Writes the reports that are wanted."""
    from dmlgraph.testing import junit as xml
    from dmlgraph.testing import matrix

    for path, render in ((junit, xml.document), (html, matrix.render)):
        if path is not None:
            with writing(path):
                write_text(path, render(records))


# Where tests run.


def _records(
    wanted: _Wanted, scheduler: str | None, workers: int | None, may_fail: Allowances, add: Callable[[Record], None]
) -> list[Record]:
    """Runs all tests, and tells what became of each as soon as that is known."""
    from dmlgraph.testing import matrix

    if scheduler is None and workers is None:
        return [_told(wanted, may_fail.applied(each), add) for each in _here(wanted)]
    records = _on_cluster(wanted, scheduler, workers, may_fail, add)
    for line in matrix.table(records):
        click.echo(visible(line))
    return records


def _here(wanted: _Wanted) -> Iterator[Record]:
    """Runs the tests of all files on this machine: in this process, or with a time limit in one of their own."""
    for path in wanted.paths:
        found = 0
        left_out = wanted.tally[LEFT_OUT]
        try:
            for record in _in_this_process(wanted, path) if wanted.seconds is None else _apart(wanted, path):
                found += 1
                yield record
        except DmlGraphError as error:
            found += 1
            yield _broken(path, error)
        if not found and wanted.tally[LEFT_OUT] == left_out:
            _without_tests(wanted, path)


def _in_this_process(wanted: _Wanted, path: pathlib.Path) -> Iterator[Record]:
    from dmlgraph.graph.dims import combinations
    from dmlgraph.testing.records import Place, Record
    from dmlgraph.testing.run import Runner, cases

    for dims, sizes in combinations(wanted.dims):
        graph = load_graph(path, dims)
        with Runner(graph, **permissions()) as runner:
            for case in cases(graph, wanted.devices):
                if _is_wanted(wanted, case.name, case.device):
                    _remark_on_device(wanted, case.device)
                    yield Record(shown(path), case.test.name, Place(case.device), runner.run(case), sizes)


def _remark_on_device(wanted: _Wanted, name: str) -> None:
    """Prints what a user may not expect of a device, once."""
    wanted.tally[name] += 1
    if wanted.tally[name] == 1:
        from dmlgraph.devices import choose

        with contextlib.suppress(DeviceError):  # the tests say so
            remark_on(choose(name).device)


def _apart(wanted: _Wanted, path: pathlib.Path) -> Iterator[Record]:
    from dmlgraph.testing.records import Place, Record, case_name
    from dmlgraph.testing.subprocess_runner import list_devices, run_test

    assert wanted.seconds is not None
    here: list[str] | None = None
    for subject in _subjects(wanted, path):
        for test, named in subject.tests.items() if subject.has_tests or wanted.how.doctor else ():
            if named is None and here is None:
                found = list_devices((), every=True, seconds=wanted.seconds)
                here = [name for name, each in found.items() if each.usable]
            for device in here or () if named is None else named:
                if _is_wanted(wanted, case_name(test, device), device):
                    how, seconds = wanted.how, wanted.seconds
                    result = run_test(subject.bundle, subject.dims, test, device, seconds=seconds, how=how)
                    yield Record(shown(path), test, Place(device), result, subject.sizes)


def _on_cluster(
    wanted: _Wanted,
    scheduler: str | None,
    workers: int | None,
    may_fail: Allowances,
    add: Callable[[Record], None],
) -> list[Record]:
    from dmlgraph.distributed import connect
    from dmlgraph.testing.subprocess_runner import SECONDS
    from dmlgraph.testing.sweeps import Sweep

    subjects: list[Subject] = []
    records = []
    for path in wanted.paths:
        try:
            subjects += _subjects(wanted, path)
        except DmlGraphError as error:
            records.append(_told(wanted, _broken(path, error), add))
    seconds = SECONDS if wanted.seconds is None else wanted.seconds
    with connect(scheduler, workers=workers) as client:
        devices, names, how = wanted.devices, wanted.names, wanted.how
        sweep = Sweep(subjects, client, devices=devices, names=names, seconds=seconds, how=how)
        records += [_told(wanted, may_fail.applied(each), add) for each in sweep]
    for address, why in sweep.refused.items():
        click.echo(visible(f"worker {address} took no part: {why}"), err=True)
    wanted.tally[LEFT_OUT] += sweep.left_out
    return sweep.ordered(records, [shown(path) for path in wanted.paths])


def _subjects(wanted: _Wanted, path: pathlib.Path) -> Iterator[Subject]:
    """The graph of a file with every combination of dims."""
    from dmlgraph.testing.test_subjects import from_file, from_path

    if is_stdin(path):
        found = from_file(read_stdin("the graph"), shown(path), pathlib.Path(), wanted.dims)
    else:
        found = from_path(path, wanted.dims, load_model=load_graph)
    yield from (each.examined() for each in found) if wanted.how.doctor else found


def _is_wanted(wanted: _Wanted, name: str, device: str) -> bool:
    """Whether -k and --device choose a test; counts it if they do not."""
    named = not wanted.names or any(each.lower() in name.lower() for each in wanted.names)
    if named and (not wanted.devices or device in wanted.devices):
        return True
    wanted.tally[LEFT_OUT] += 1
    return False


# What is printed.


def _told(wanted: _Wanted, record: Record, add: Callable[[Record], None]) -> Record:
    """Prints a result, and adds it to the lines of JSON."""
    from dmlgraph.testing.records import Outcome

    add(record)
    if record.result.outcome is Outcome.BROKEN and record.place is None:
        return record  # its problems are printed
    if wanted.quiet and not record.is_failure:
        return record
    line = f"{record.file}::{record.name} {record.word}"
    if record.result.outcome is Outcome.SKIPPED:
        line += f": {record.result.report}"
    elif record.may_fail is not None and record.is_wrong:
        line += f": {record.may_fail}"
    click.echo(visible(line))
    if record.is_failure:
        click.echo(textwrap.indent(record.result.report, "  "))
    return record


def _broken(path: pathlib.Path, error: DmlGraphError) -> Record:
    """The record of a file that is wrong, so that none of its tests ran; prints what is wrong."""
    from dmlgraph.testing.test_subjects import broken

    tell(error.problems)
    return broken(shown(path), error)


def _without_tests(wanted: _Wanted, path: pathlib.Path) -> None:
    if not wanted.quiet:
        click.echo(f"{shown(path)}: no tests")
    wanted.tally[WITHOUT] += 1


def _remark(records: Iterable[Record], may_fail: Allowances) -> None:
    """Says which allowances are not needed."""
    from dmlgraph.testing.records import Outcome

    for record in records:
        if record.may_fail is not None and record.result.outcome is Outcome.PASSED:
            click.echo(visible(f"{record.file}::{record.name} passed, and is allowed to fail: {record.may_fail}"))
    for entry in may_fail.unused:
        click.echo(visible(f"{entry.place}: no test that ran fits this, which is allowed to fail: {entry.reason}"))


def _summary(records: Sequence[Record], tally: Mapping[str, int]) -> str:
    from dmlgraph.testing.records import Outcome, counted

    parts = [counted(records)] if counted(records) else []
    parts += [f"{tally[LEFT_OUT]} left out"] if tally[LEFT_OUT] else []
    wrong = sum(record.result.outcome is Outcome.BROKEN for record in records)
    parts += [f"{plural(wrong, 'file')} with errors"] if wrong else []
    parts += [f"{plural(tally[WITHOUT], 'file')} without tests"] if tally[WITHOUT] else []
    return ", ".join(parts)


class _Lines:
    """A file with a line of JSON for each result: as it comes, and at the end in the order of the tests."""

    def __init__(self, path: pathlib.Path | None) -> None:
        self._path = path
        self._open = contextlib.ExitStack()
        self._stream: TextIO | None = None

    def __enter__(self) -> _Lines:
        if self._path is not None:
            with writing(self._path):
                self._stream = self._open.enter_context(self._path.open("w", encoding="utf-8", newline="\n"))
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def add(self, record: Record) -> None:
        if self._stream is not None and self._path is not None:
            with writing(self._path):
                self._stream.write(_line(record))
                self._stream.flush()

    def replace(self, records: Iterable[Record]) -> None:
        self._open.close()
        if self._path is not None and self._path.is_file():  # not a pipe
            with writing(self._path):
                write_text(self._path, "".join(map(_line, records)))


def _line(record: Record) -> str:
    import json

    return json.dumps(record.plain) + "\n"
