"""A finding in words, and as plain data."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlgraph.base.errors import listing, plural
from dmlgraph.base.tables import lines
from dmlgraph.doctor import picture
from dmlgraph.doctor.finding import Finding, Kind
from dmlgraph.graph.nodes import OperatorNode
from dmlgraph.measure.report import neighbours
from dmlgraph.measure.ulp import compare

if TYPE_CHECKING:
    from dmlgraph.graph.graph import Graph

INDENT = "  "
MOST_NAMED = 8  # nodes of a group

SAID = {
    Kind.FAULT: "computes '{node}' wrong",
    Kind.NOT_FINITE: "makes NaN or infinity in '{node}' of finite numbers",
    Kind.UNSTABLE: "gives other results at each run",
    Kind.VANISHING: "computes the whole graph wrong, and every node right when the values between are outputs",
    Kind.AMPLIFICATION: "computes every node right: small differences grow",
    Kind.LOST: "is lost in '{node}'",
    Kind.REFUSED: "refuses the graph",
    Kind.HANG: "does not end in '{node}'",
    Kind.RECORDED: "is right, but '{node}' is not what was recorded",
    Kind.SOUND: "computes every node right",
}


def described(graph: Graph, finding: Finding) -> Iterator[str]:
    """A finding for a terminal."""
    said = SAID[finding.kind].format(node=finding.node)
    if finding.kind is Kind.UNSTABLE and finding.node is not None:
        said += f", first in '{finding.node}'"
    place = graph.origin.location(finding.node) if finding.node is not None else None
    yield f"{f'{place}: ' if place else ''}{finding.device} {said}"
    if finding.node is not None:
        yield f"{INDENT}{_operator(graph, finding.node)}"
    if len(finding.group) > 1:
        yield f"{INDENT}together: {listing(finding.group, at_most=MOST_NAMED)}"
    if finding.rules:
        yield f"{INDENT}fused by {', '.join(finding.rules)}"
    if finding.why:
        yield from (f"{INDENT}{line}" for line in finding.why.splitlines())
    if finding.measures is not None:
        yield from (f"{INDENT}{line}" for line in _wrong_output(finding))
    for name, measures in finding.outputs.items():
        yield f"{INDENT}{'output' if name in graph.outputs else 'next value'} '{name}':"
        yield from (f"{INDENT * 2}{line}" for line in lines(measures.rows(), "<>"))
    yield f"{INDENT}{plural(finding.executions, 'execution')} on the device"


def _operator(graph: Graph, name: str) -> str:
    node = graph.node(name)
    if not isinstance(node, OperatorNode):
        return "an input"
    descs = [str(desc) for desc in node.operator.input_descs if desc is not None]
    return f"{node.operator.name} of {', '.join(descs)}" if descs else node.operator.name


def _wrong_output(finding: Finding) -> Iterator[str]:
    """The first wrong output of a node: its measures, the worst element and those around it, and the picture."""
    assert finding.measures is not None
    got, expected = finding.got[finding.wrong], finding.expected[finding.wrong]
    yield from lines(finding.measures.rows(), "<>")
    sides = ("recorded", "expected") if finding.kind is Kind.RECORDED else ("got", "expected")
    if finding.kind is Kind.RECORDED:
        got, expected = expected, got
    yield from neighbours("", compare(got, expected), sides)
    yield from picture.lines(got, expected)


def plain(graph: Graph, finding: Finding) -> dict[str, Any]:
    """A finding as plain data; arrays are left out."""
    location = graph.origin.location(finding.node) if finding.node is not None else None
    return {
        "kind": finding.kind.value,
        "device": finding.device,
        "node": finding.node,
        "operator": _operator(graph, finding.node) if finding.node is not None else None,
        "place": None if location is None else str(location),
        "group": list(finding.group),
        "rules": list(finding.rules),
        "why": finding.why,
        "executions": finding.executions,
        "measures": None if finding.measures is None else _finite(finding.measures),
        "places": picture.places(picture.errors(finding.got[finding.wrong], finding.expected[finding.wrong]))
        if finding.measures is not None
        else [],
        "outputs": {name: _finite(measures) for name, measures in finding.outputs.items()},
    }


def _finite(measures: Any) -> dict[str, Any]:
    """Measures as JSON can express them: without infinities."""
    found = dataclasses.asdict(measures)
    return {key: None if isinstance(value, float) and not np.isfinite(value) else value for key, value in found.items()}
