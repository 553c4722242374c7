"""JUnit XML: every test with its outcome, whatever characters its texts have, as the schema has it."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmlgraph.testing.junit import document
from dmlgraph.testing.records import Outcome, Place, Record, Result

CPU = Place("cpu")
RECORDS = [
    Record("a.yaml", "t", CPU, Result(Outcome.PASSED, seconds=0.25)),
    Record("a.yaml", "u", CPU, Result(Outcome.FAILED, "first\nsecond <&>", 0.5)),
    Record("a.yaml", "u", Place("x"), Result(Outcome.SKIPPED, "is not here")),
    Record("b.yaml", "", None, Result(Outcome.BROKEN, "broken")),
]

# The attributes that junit-10.xsd of the xUnit plugin of Jenkins has; the first ones must be given.
SCHEMA = {
    "testsuites": ((), {"name", "time", "tests", "failures", "errors"}),
    "testsuite": (
        ("name", "tests", "failures", "errors"),
        {"group", "time", "skipped", "timestamp", "hostname", "id", "package", "file", "log", "url"},
    ),
    "testcase": (("name",), {"time", "classname", "group"}),
    **dict.fromkeys(("failure", "error", "skipped"), ((), {"type", "message"})),
}


def test_each_file_is_a_suite_and_each_test_a_case() -> None:
    root = ElementTree.fromstring(document(RECORDS).encode())
    assert root.attrib == {"name": "dmlgraph", "tests": "4", "failures": "1", "errors": "1", "time": "0.750"}
    suites = list(root)
    assert [(each.tag, each.get("name"), each.get("tests"), each.get("skipped")) for each in suites] == [
        ("testsuite", "a.yaml", "3", "1"),
        ("testsuite", "b.yaml", "1", "0"),
    ]
    passed, failed, skipped = suites[0]
    assert (passed.get("name"), passed.get("classname"), passed.get("time")) == ("t[cpu]", "a.yaml", "0.250")
    assert len(passed) == 0
    assert (failed[0].tag, failed[0].get("message"), failed[0].text) == ("failure", "first", "first\nsecond <&>")
    assert (skipped[0].tag, skipped[0].text) == ("skipped", "is not here")
    assert (suites[1][0][0].tag, suites[1][0][0].text) == ("error", "broken")


def test_each_machine_has_a_suite_with_its_name() -> None:
    places = [Place("cpu", "lab-1"), Place("cpu", "lab-2")]
    records = [Record("a.yaml", "t", place, Result(Outcome.PASSED), "N=8") for place in places]
    root = ElementTree.fromstring(document(records).encode())
    assert [suite.get("hostname") for suite in root] == ["lab-1", "lab-2"]
    assert [case.get("name") for case in root.iter("testcase")] == [
        f"t[cpu] with N=8 on lab-{number}" for number in (1, 2)
    ]


@pytest.mark.parametrize(
    ("outcome", "may_fail", "element"),
    [
        (Outcome.PASSED, "r", None),
        (Outcome.FAILED, None, "failure"),
        (Outcome.FAILED, "r", "skipped"),
        (Outcome.CRASHED, None, "error"),
        (Outcome.CRASHED, "r", "skipped"),
        (Outcome.TIMED_OUT, None, "error"),
        (Outcome.LOST, None, "error"),
        (Outcome.SKIPPED, None, "skipped"),
    ],
)
def test_what_did_not_compute_is_an_error_and_what_may_fail_is_skipped(
    outcome: Outcome, may_fail: str | None, element: str | None
) -> None:
    record = Record("a.yaml", "t", CPU, Result(outcome, "why"), may_fail=may_fail)
    (case,) = ElementTree.fromstring(document([record]).encode()).iter("testcase")
    assert [each.tag for each in case] == ([] if element is None else [element])
    if element is not None and may_fail is not None:
        assert case[0].text == "allowed to fail: r\nwhy"
        assert case[0].get("message") == "allowed to fail: r"


def test_no_tests_are_a_document_too() -> None:
    assert ElementTree.fromstring(document([]).encode()).get("tests") == "0"


@given(
    st.text(st.characters()),
    st.text(st.characters()),
    st.sampled_from(Outcome),
    st.none() | st.text(st.characters()),
)
def test_any_text_makes_a_document_that_the_schema_has(
    name: str, report: str, outcome: Outcome, may_fail: str | None
) -> None:
    place = Place(name, name, name)
    records = [
        Record(name, name, place, Result(outcome, report), name, may_fail=may_fail),
        Record(name, name, None, Result(Outcome.BROKEN, report)),
    ]
    root = ElementTree.fromstring(document(records).encode())
    assert len(list(root.iter("testcase"))) == 2
    for element in root.iter():
        needed, optional = SCHEMA[element.tag]
        assert set(needed) <= element.attrib.keys() <= {*needed, *optional}
