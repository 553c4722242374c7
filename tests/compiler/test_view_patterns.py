"""What usual patterns of views cost: the copies in the lowered graph, and the dispatches of the real DirectML."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.passes.fusing import dispatches
from support.view_patterns import PATTERNS, Pattern

import dmlgraph as dg
from dmlgraph.devices.compile import fuse_graph
from dmlgraph.devices.names import DeviceName
from dmlgraph.graph.nodes import OperatorNode

MOVES = {"identity", "slice", "slice1", "tile"}

every_pattern = pytest.mark.parametrize("pattern", PATTERNS, ids=lambda each: each.name)


def feeds_of(pattern: Pattern) -> dict[str, Any]:
    random = np.random.default_rng(5)
    return {f"x{place}": random.standard_normal(sizes).astype(np.float32) for place, sizes in enumerate(pattern.inputs)}


def graph_of(pattern: Pattern) -> dg.Graph:
    graph = dg.Graph("pattern")
    inputs = [graph.input(name, sizes=array.shape, dtype="float32") for name, array in feeds_of(pattern).items()]
    graph.output("y", pattern.build(*inputs))
    return graph


def test_there_are_many_patterns_and_each_copy_has_its_reason() -> None:
    assert len({pattern.name for pattern in PATTERNS}) == len(PATTERNS) >= 20
    for pattern in PATTERNS:
        assert bool(pattern.copies) == bool(pattern.why), pattern.name


@every_pattern
def test_how_many_copies_there_are(pattern: Pattern) -> None:
    nodes = fuse_graph(graph_of(pattern)).graph.nodes
    moves = [node.operator.name for node in nodes if isinstance(node, OperatorNode) and node.operator.name in MOVES]
    assert len(moves) == pattern.copies, moves


@every_pattern
@pytest.mark.usefixtures("directml_path")
def test_how_many_dispatches_there_are(pattern: Pattern) -> None:
    assert dispatches(graph_of(pattern), feeds_of(pattern)) == pattern.dispatches


@every_pattern
@pytest.mark.parametrize("fuse", [True, False])
@pytest.mark.parametrize("name", ["reference", "cpu", "directml:software"])
def test_it_computes_what_numpy_does(
    pattern: Pattern, name: DeviceName, fuse: bool, request: pytest.FixtureRequest
) -> None:
    if name.startswith("directml"):
        request.getfixturevalue("directml_path")
    feeds = feeds_of(pattern)
    expected = pattern.build(*feeds.values())
    got = graph_of(pattern).compile(name, fuse=fuse).run(feeds)["y"]
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)
