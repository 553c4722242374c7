"""Tests that are allowed to fail, listed in a file with the reasons.

    - {graph: "models/*.yaml", device: "directml*", machine: "lab-3", reason: the driver rounds halves away from zero}
    - {test: big, reason: needs 8 GiB}

`graph`, `test`, `device` and `machine` are patterns, in which `*` stands for any text; one that is left out fits all.
A pattern without `/` for a graph fits the names of files in any folder.  The first entry that fits a test gives the
reason.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import os
import pathlib

from dmlgraph.base.errors import Location
from dmlgraph.base.report import DocumentReport, Report
from dmlgraph.formats.text_tree.keys import known_keys
from dmlgraph.formats.text_tree.text import read_text
from dmlgraph.formats.text_tree.tree import Tree, parse
from dmlgraph.testing.records import Outcome, Record

PATTERNS = ("graph", "test", "device", "machine")
_EXAMPLE = "such as {graph: big.yaml, device: 'directml*', reason: the driver rounds otherwise}"


@dataclasses.dataclass(frozen=True, slots=True)
class Allowance:
    """An entry: patterns, and why what fits them may fail."""

    graph: str
    test: str
    device: str
    machine: str
    reason: str
    place: Location

    def fits(self, record: Record) -> bool:
        """Whether it is about a test; a file that is wrong is never allowed to fail."""
        if record.place is None:
            return False
        file = pathlib.PurePath(record.file).as_posix()
        pairs = ((record.test, self.test), (record.place.device, self.device), (record.place.machine, self.machine))
        is_graph = any(fnmatch.fnmatchcase(file, each) for each in (self.graph, f"*/{self.graph}"))
        return is_graph and all(fnmatch.fnmatchcase(text, pattern) for text, pattern in pairs)


class Allowances:
    """The entries of a file; remembers which of them fitted a test."""

    def __init__(self, entries: tuple[Allowance, ...] = ()) -> None:
        self.entries = entries
        self._used: set[Allowance] = set()

    def applied(self, record: Record) -> Record:
        """The record with the reason why it may fail, if an entry fits it."""
        found = next((each for each in self.entries if each.fits(record)), None)
        if found is None:
            return record
        if record.result.outcome is not Outcome.SKIPPED:
            self._used.add(found)
        return dataclasses.replace(record, may_fail=found.reason)

    @property
    def unused(self) -> list[Allowance]:
        """The entries that fitted no test that ran, or only tests that an earlier entry fits."""
        return [each for each in self.entries if each not in self._used]


def read(path: str | os.PathLike[str]) -> Allowances:
    """The entries of a YAML file.

    Raises:
        DocumentError: every problem, with its line and column.
    """
    path = pathlib.Path(path)
    with DocumentReport() as report:
        tree = parse(read_text(path), os.fspath(path), report)
        entries = [] if tree is None else _list(tree, report)
        found = tuple(each for each in (_entry(item, report) for item in entries) if each is not None)
    return Allowances(found)


def _list(tree: Tree, report: Report) -> list[Tree]:
    if isinstance(tree.value, list):
        return tree.value
    if tree.value is not None:
        report.problem("must be a list of what may fail", tree, "kind", got=tree.plain, hint=_EXAMPLE)
    return []


def _entry(tree: Tree, report: Report) -> Allowance | None:
    if not isinstance(tree.value, dict):
        report.problem("must be a mapping", tree, "kind", got=tree.plain, hint=_EXAMPLE)
        return None
    tree = known_keys(tree, (*PATTERNS, "reason"), report)
    for key, item in tree.value.items():
        if not isinstance(item.value, str) or not item.value.strip():
            report.problem("must be text", item, "kind", field=key, got=item.plain)
            return None
    if "reason" not in tree.value:
        report.problem("must be given: why may it fail?", tree, "missing", field="reason", hint=_EXAMPLE)
        return None
    texts = {key: str(item.value) for key, item in tree.value.items()}
    patterns = {key: texts.get(key, "*") for key in PATTERNS}
    return Allowance(**patterns, reason=texts["reason"], place=tree.location)
