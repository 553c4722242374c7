"""Findings in words and as JSON, of every kind."""

from __future__ import annotations

import json

import numpy as np
import pytest

import dmlgraph as dg
from dmlgraph.doctor.finding import Finding, Kind
from dmlgraph.doctor.measures import Measures
from dmlgraph.doctor.words import described, plain

RIGHT, WRONG = np.zeros((2, 4), np.float32), np.array([[0, 0, 1, 0], [0, np.nan, 0, np.inf]], np.float32)


def graph() -> dg.Graph:
    made = dg.Graph("g")
    x = made.input("x", sizes=[2, 4], dtype="float32")
    made.output("y", dg.negate(dg.exp(x, name="decay"), name="last"))
    return made


def of_node(kind: Kind) -> Finding:
    measures = Measures.of(WRONG, RIGHT)
    return Finding(kind, "cpu", node="decay", got=(WRONG,), expected=(RIGHT,), executions=5, measures=measures)


def of_graph(kind: Kind, group: tuple[str, ...] = (), why: str = "") -> Finding:
    return Finding(kind, "cpu", group=group, executions=1, outputs={"y": Measures.of(WRONG, RIGHT)}, why=why)


FINDINGS = {
    "cpu computes 'decay' wrong": of_node(Kind.FAULT),
    "cpu makes NaN or infinity in 'decay' of finite numbers": of_node(Kind.NOT_FINITE),
    "cpu gives other results at each run, first in 'decay'": of_node(Kind.UNSTABLE),
    "cpu gives other results at each run": of_graph(Kind.UNSTABLE),
    "cpu computes the whole graph wrong, and every node right when the values between are outputs": of_graph(
        Kind.VANISHING, ("decay", "last"), "one\ntwo"
    ),
    "cpu computes every node right: small differences grow": of_graph(Kind.AMPLIFICATION),
    "cpu is lost in 'decay'": Finding(Kind.LOST, "cpu", node="decay", why="the device was removed"),
    "cpu does not end in 'decay'": Finding(Kind.HANG, "cpu", node="decay"),
    "cpu refuses the graph": Finding(Kind.REFUSED, "cpu", why="why"),
    "cpu is right, but 'decay' is not what was recorded": of_node(Kind.RECORDED),
    "cpu computes every node right": of_graph(Kind.SOUND),
}


def test_every_kind_is_said() -> None:
    assert {each.kind for each in FINDINGS.values()} == set(Kind)


@pytest.mark.parametrize("said", FINDINGS)
def test_a_finding_in_words(said: str) -> None:
    finding = FINDINGS[said]
    first, *rest = described(graph(), finding)
    assert first == said
    assert ("  exp of float32 [2,4]" in rest) == (finding.node is not None)
    assert ("  together: decay, last" in rest) == bool(finding.group)
    assert ("  output 'y':" in rest) == bool(finding.outputs)
    assert [f"  {line}" in rest for line in finding.why.splitlines()] == [True] * len(finding.why.splitlines())


@pytest.mark.parametrize("finding", FINDINGS.values(), ids=lambda finding: finding.kind.name)
def test_a_finding_is_json(finding: Finding) -> None:
    """Infinities and NaN are none of its numbers."""
    told = json.loads(json.dumps(plain(graph(), finding), allow_nan=False))
    assert (told["kind"], told["node"], told["group"]) == (finding.kind.value, finding.node, list(finding.group))
    assert (told["operator"] is None) == (finding.node is None)
    assert (told["measures"] is None) == (finding.measures is None)
    assert set(told["outputs"]) == set(finding.outputs)
    for measures in filter(None, (told["measures"], *told["outputs"].values())):
        assert (measures["elements"], measures["not_finite"], measures["relative"]) == (8, 2, None)
