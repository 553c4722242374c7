"""Results as tables for the terminal, and the data of their page; tests/picture/test_matrix_page.py opens it."""

from __future__ import annotations

import json
import re

from dmlgraph.testing.matrix import render, table
from dmlgraph.testing.records import Outcome, Place, Record, Result

CPU, GPU = Place("cpu", "lab-1", "a processor"), Place("directml:0", "lab-1", "an adapter")
RECORDS = [
    Record("a.yaml", "t", GPU, Result(Outcome.CRASHED, "x", 0.5)),
    Record("a.yaml", "t", CPU, Result(Outcome.PASSED, seconds=0.25)),
    Record("a.yaml", "u", CPU, Result(Outcome.SKIPPED)),
    Record("a.yaml", "u", GPU, Result(Outcome.FAILED)),
    Record("b.yaml", "t", CPU, Result(Outcome.SKIPPED), "N=8"),
    Record("c.yaml", "t", CPU, Result(Outcome.TIMED_OUT, "slow"), may_fail="it is slow"),
    Record("d.yaml", "", None, Result(Outcome.BROKEN, "wrong")),
]


def test_the_tables_have_every_place_and_every_graph() -> None:
    assert list(table(RECORDS)) == [
        "",
        "   device      machine  tests                                     time",
        "1  cpu         lab-1    1 allowed to fail, 1 passed, 2 skipped  250 ms  a processor",
        "2  directml:0  lab-1    1 crashed, 1 failed                     500 ms  an adapter",
        "",
        "                 1                  2",
        "a.yaml           ok                 1 crashed, 1 failed",
        "b.yaml with N=8  skipped",
        "c.yaml           1 allowed to fail",
        "",
    ]


def test_without_places_there_are_no_tables() -> None:
    assert list(table(RECORDS[-1:])) == []


def test_the_page_holds_every_record_and_needs_no_network() -> None:
    text = render([*RECORDS, Record("<b>.yaml", "</script>", CPU, Result(Outcome.FAILED, "<!-- & \u2028"))])
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    data = json.loads(found[1])
    assert data["places"] == [["cpu", "lab-1", "a processor"], ["directml:0", "lab-1", "an adapter"]]
    words = data["words"]
    assert [
        (file, sizes, test, place, words[word], time, report, reason)
        for file, sizes, tests in data["graphs"]
        for test, cells in tests
        for place, word, time, report, _, reason in cells
    ] == [
        ("a.yaml", "", "t", 1, "crashed", "500 ms", "x", ""),
        ("a.yaml", "", "t", 0, "passed", "250 ms", "", ""),
        ("a.yaml", "", "u", 0, "skipped", "0.00 ns", "", ""),
        ("a.yaml", "", "u", 1, "failed", "0.00 ns", "", ""),
        ("b.yaml", "N=8", "t", 0, "skipped", "0.00 ns", "", ""),
        ("c.yaml", "", "t", 0, "allowed to fail", "0.00 ns", "slow", "it is slow"),
        ("d.yaml", "", "the file", -1, "broken", "0.00 ns", "wrong", ""),
        ("<b>.yaml", "", "</script>", 0, "failed", "0.00 ns", "<!-- & \u2028", ""),
    ]
    assert "<title>Tests of 5 graphs on 2 devices</title>" in text
    assert "default-src 'none'" in text
    assert not re.search(r"https?:", text)
