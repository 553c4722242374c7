"""Results of tests as JUnit XML, which continuous integration reads."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from xml.etree import ElementTree

from dmlgraph.testing.run import Outcome, Result

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """A test and its result.

    Attributes:
        file: the graph file.
        name: of the test, its device and its sizes.
        result: None where the file is wrong, so that its tests did not run.
        error: what is wrong with the file.
    """

    file: str
    name: str
    result: Result | None
    error: str = ""

    @property
    def is_failure(self) -> bool:
        return self.result is None or self.result.outcome is Outcome.FAILED


def document(records: Sequence[Record]) -> str:
    """The XML document: a test suite for each file."""
    suites: dict[str, list[Record]] = {}
    for record in records:
        suites.setdefault(record.file, []).append(record)
    root = ElementTree.Element("testsuites", _counts(records), name="dmlgraph")
    for file, members in suites.items():
        suite = ElementTree.SubElement(root, "testsuite", _counts(members), name=_legal(file))
        for record in members:
            _add(suite, record)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _add(suite: ElementTree.Element, record: Record) -> None:
    result = record.result
    seconds = _seconds([record])
    file = _legal(record.file)
    case = ElementTree.SubElement(suite, "testcase", classname=file, name=_legal(record.name), file=file, time=seconds)
    if result is None:
        kind, text = "error", record.error
    elif result.outcome is Outcome.PASSED:
        return
    else:
        kind, text = "skipped" if result.outcome is Outcome.SKIPPED else "failure", result.report
    text = _legal(text)
    ElementTree.SubElement(case, kind, message=text.partition("\n")[0]).text = text


def _counts(records: Sequence[Record]) -> dict[str, str]:
    outcomes = [record.result and record.result.outcome for record in records]
    return {
        "tests": str(len(records)),
        "failures": str(outcomes.count(Outcome.FAILED)),
        "errors": str(outcomes.count(None)),
        "skipped": str(outcomes.count(Outcome.SKIPPED)),
        "time": _seconds(records),
    }


def _seconds(records: Sequence[Record]) -> str:
    return f"{sum(record.result.seconds for record in records if record.result):.3f}"


def _legal(text: str) -> str:
    """Text without characters that XML cannot hold."""
    return _NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", text)
