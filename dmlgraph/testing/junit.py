"""Results of tests as JUnit XML, which continuous integration reads.

The elements and attributes are those of the schema that Jenkins and others check with, `junit-10.xsd`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from dmlgraph.testing.records import ALLOWED, Outcome, Record

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# For tests that did not pass; their other outcomes are errors.
_ELEMENTS = {Outcome.SKIPPED: "skipped", Outcome.FAILED: "failure"}


def document(records: Sequence[Record]) -> str:
    """The XML document: a test suite for each file and machine."""
    suites: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        suites.setdefault((record.file, record.place.machine if record.place else ""), []).append(record)
    root = ElementTree.Element("testsuites", _counts(records), name="dmlgraph")
    for (file, machine), members in suites.items():
        suite = ElementTree.SubElement(root, "testsuite", _counts(members), name=_legal(file))
        suite.set("skipped", str(_elements(members).count("skipped")))
        if machine:
            suite.set("hostname", _legal(machine))
        for record in members:
            _add(suite, record)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _add(suite: ElementTree.Element, record: Record) -> None:
    name, file = _legal(record.name), _legal(record.file)
    case = ElementTree.SubElement(suite, "testcase", classname=file, name=name, time=_seconds([record]))
    kind = _element(record)
    if kind is None:
        return
    text = record.result.report
    if record.may_fail is not None and record.is_wrong:
        text = f"{ALLOWED}: {record.may_fail}\n{text}"
    text = _legal(text)
    outcome = record.result.outcome.value
    ElementTree.SubElement(case, kind, type=outcome, message=text.partition("\n")[0] or outcome).text = text


def _element(record: Record) -> str | None:
    """The element of a test that did not pass; None for one that passed."""
    if record.result.outcome is Outcome.PASSED:
        return None
    return "skipped" if record.word == ALLOWED else _ELEMENTS.get(record.result.outcome, "error")


def _elements(records: Sequence[Record]) -> list[str | None]:
    return [_element(record) for record in records]


def _counts(records: Sequence[Record]) -> dict[str, str]:
    found = _elements(records)
    return {
        "tests": str(len(records)),
        "failures": str(found.count("failure")),
        "errors": str(found.count("error")),
        "time": _seconds(records),
    }


def _seconds(records: Sequence[Record]) -> str:
    return f"{sum(record.result.seconds for record in records):.3f}"


def _legal(text: str) -> str:
    """Text without characters that XML cannot hold."""
    return _NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", text)
