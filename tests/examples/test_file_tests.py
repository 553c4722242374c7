"""The tests in the examples' files pass on every device that is here."""

from __future__ import annotations

import pathlib

import pytest

import dmlgraph as dg
from dmlgraph.formats.yaml.tests import check_tests
from dmlgraph.testing.records import Outcome
from dmlgraph.testing.run import Runner, cases

EXAMPLES = pathlib.Path(__file__).parent.parent.parent / "examples"
TESTED = {path: graph for path in sorted(EXAMPLES.rglob("*.yaml")) if (graph := dg.load(path)).origin.tests}
CASES = [(graph, case) for graph in TESTED.values() for case in cases(graph)]


def test_some_examples_have_tests() -> None:
    assert len(TESTED) >= 6


@pytest.mark.parametrize("path", TESTED, ids=lambda path: path.stem)
def test_the_tests_fit_their_graphs(path: pathlib.Path) -> None:
    check_tests(TESTED[path])


@pytest.mark.parametrize(("graph", "case"), CASES, ids=[f"{graph.name}-{case.name}" for graph, case in CASES])
def test_they_pass(graph: dg.Graph, case: object) -> None:
    with Runner(graph) as runner:
        result = runner.run(case)  # type: ignore[arg-type]
    if result.outcome is Outcome.SKIPPED:
        pytest.skip(result.report)
    assert result.outcome is Outcome.PASSED, result.report
