"""JUnit XML: every test with its outcome, whatever characters its texts have."""

from __future__ import annotations

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from dmlgraph.testing.junit import Record, document
from dmlgraph.testing.run import Outcome, Result

RECORDS = [
    Record("a.yaml", "t[cpu]", Result(Outcome.PASSED, seconds=0.25)),
    Record("a.yaml", "u[cpu]", Result(Outcome.FAILED, "first\nsecond <&>", 0.5)),
    Record("a.yaml", "u[x]", Result(Outcome.SKIPPED, "is not here")),
    Record("b.yaml", "the file", None, "broken"),
]


def test_each_file_is_a_suite_and_each_test_a_case() -> None:
    root = ElementTree.fromstring(document(RECORDS).encode())
    assert root.attrib == {
        "name": "dmlgraph",
        "tests": "4",
        "failures": "1",
        "errors": "1",
        "skipped": "1",
        "time": "0.750",
    }
    suites = list(root)
    assert [(each.tag, each.get("name"), each.get("tests")) for each in suites] == [
        ("testsuite", "a.yaml", "3"),
        ("testsuite", "b.yaml", "1"),
    ]
    passed, failed, skipped = suites[0]
    assert (passed.get("name"), passed.get("classname"), passed.get("time")) == ("t[cpu]", "a.yaml", "0.250")
    assert len(passed) == 0
    assert (failed[0].tag, failed[0].get("message"), failed[0].text) == ("failure", "first", "first\nsecond <&>")
    assert (skipped[0].tag, skipped[0].text) == ("skipped", "is not here")
    assert (suites[1][0][0].tag, suites[1][0][0].text) == ("error", "broken")


def test_no_tests_are_a_document_too() -> None:
    assert ElementTree.fromstring(document([]).encode()).get("tests") == "0"


@given(st.text(st.characters()), st.text(st.characters()))
def test_any_text_makes_a_document(name: str, report: str) -> None:
    records = [Record(name, name, Result(Outcome.FAILED, report)), Record(name, name, None, report)]
    assert len(list(ElementTree.fromstring(document(records).encode()).iter("testcase"))) == 2
