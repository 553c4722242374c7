"""Layout: sources are above consumers, boxes do not overlap, far-away sources are references."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.picture.graphs import chain, fused, ramp

import dmlgraph as dg
from dmlgraph.picture import layout
from dmlgraph.picture.drawing import Box, Drawing, Edge, draw
from dmlgraph.picture.layout import (
    FARTHEST,
    FARTHEST_SOURCE,
    LABEL,
    LABELLED,
    Placed,
    Route,
    Scene,
    lay_out,
    text_width,
)
from dmlgraph.picture.scopes import in_scopes
from dmlgraph.picture.shapes import Kind


def overlap(one: Placed, other: Placed) -> bool:
    across = abs(one.x - other.x) < (one.width + other.width) / 2
    return across and abs(one.y - other.y) < (one.height + other.height) / 2


def check(scene: Scene) -> None:
    for placed in scene.boxes:
        assert placed.width / 2 <= placed.x <= scene.width - placed.width / 2
        assert placed.height / 2 <= placed.y <= scene.height - placed.height / 2
    for one, other in itertools.combinations(scene.boxes, 2):
        assert not overlap(one, other), (one.box.name, other.box.name)
    for route in scene.routes:
        source, target = scene.boxes[route.edge.source], scene.boxes[route.edge.target]
        assert source.y + source.height / 2 <= target.y - target.height / 2
        assert abs(route.points[0][1] - source.y) <= source.height / 2 + 1
        assert abs(route.points[0][0] - source.x) <= source.width / 2 + 1
        assert abs(route.tip[1] - target.y) <= target.height / 2 + 1
        assert abs(route.tip[0] - target.x) <= target.width / 2 + 1
        assert (len(route.points) - 1) % 3 == 0


def test_a_graph_stands_top_to_bottom_without_overlaps() -> None:
    scene = lay_out(draw(ramp()))
    assert [placed.box.name for placed in scene.boxes] == [box.name for box in draw(ramp()).boxes]
    check(scene)


def curve(route: Route) -> Iterator[tuple[float, float]]:
    """Points on the whole route, close to one another."""
    for start in range(0, len(route.points) - 1, 3):
        corners = route.points[start : start + 4]
        for step in range(PIECES + 1):
            t = step / PIECES
            weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
            x, y = (sum(w * corner[axis] for w, corner in zip(weights, corners, strict=True)) for axis in (0, 1))
            yield x, y


PIECES = 40


def labels_are_free(scene: Scene) -> int:
    """Checks that no label meets an edge, a box or another label; returns how many labels there are."""
    anything = scene.boxes[0].box
    labels = [
        Placed(anything, *route.label, text_width(route.edge.label, LABEL), float(LABEL))
        for route in scene.routes
        if route.label is not None
    ]
    for one, other in itertools.combinations(labels, 2):
        assert not overlap(one, other)
    for label, placed in itertools.product(labels, scene.boxes):
        assert not overlap(label, placed), placed.box.name
    lines = [list(curve(route)) for route in scene.routes]
    for label, (route, line) in itertools.product(labels, zip(scene.routes, lines, strict=True)):
        for (x, y), (to_x, to_y) in itertools.pairwise([*line, route.tip]):
            piece = Placed(anything, (x + to_x) / 2, (y + to_y) / 2, abs(to_x - x), abs(to_y - y))
            assert not overlap(label, piece), (label, route.edge)
    return len(labels)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.lists(st.integers(0, 40), max_size=3, unique=True), min_size=2, max_size=14), st.booleans())
def test_no_label_meets_an_edge_or_a_box(reads: list[list[int]], is_roomy: bool) -> None:
    """Any graph: each box reads some of those before it."""
    boxes = tuple(
        Box(f"box{i}", Kind.OPERATOR, (f"box{i}" * (1 + i % 3), "add")[: 1 + i % 2], ()) for i in range(len(reads))
    )
    edges = tuple(
        Edge(source % target, target, f"float32 [{','.join(['64'] * (1 + source % 5))}]", ())
        for target, sources in enumerate(reads)
        for source in (sources if target else ())
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "LABELLED", len(edges) if is_roomy else -1)
        scene = lay_out(Drawing("any", boxes, edges))
    check(scene)
    assert labels_are_free(scene) == len(edges) or not is_roomy


def test_labels_of_scopes_are_free_where_they_are_open() -> None:
    g = dg.Graph("g")
    value = g.input("x", sizes=[2, 3], dtype="float32")
    with g.scope("scope"):
        value = dg.add(value, dg.activation_relu(value))
    g.output("y", dg.add(value, dg.negate(value)))
    scene = lay_out(in_scopes(draw(g)), are_open=True)
    assert labels_are_free(scene) == len(scene.routes) == 5


def test_the_same_graph_has_the_same_layout() -> None:
    assert lay_out(draw(ramp())) == lay_out(draw(ramp()))


def test_groups_are_laid_out_too() -> None:
    (group,) = lay_out(fused()[1]).groups.values()
    check(group)
    assert [placed.box.name for placed in group.boxes] == ["scaled", "shifted"]


def test_a_source_far_above_is_drawn_as_a_reference() -> None:
    drawing = draw(chain(40))
    scene = lay_out(drawing)
    references = [placed for placed in scene.boxes if placed.box.kind is Kind.REFERENCE]
    assert len(references) == 20 - FARTHEST_SOURCE // 2  # n1, n3, … read x, from 2, 4, … layers below it
    assert {placed.stands_for for placed in references} == {0}
    assert {placed.box.lines for placed in references} == {("↑ x",)}
    assert len(scene.routes) == len(drawing.edges)
    assert [placed.stands_for for placed in scene.boxes[: len(drawing.boxes)]] == [None] * len(drawing.boxes)
    check(scene)


@pytest.mark.parametrize(("between", "references"), [(FARTHEST - 1, 0), (FARTHEST, 1)])
def test_what_flows_may_cross_more_layers(between: int, references: int) -> None:
    g = dg.Graph("g")
    first = value = dg.abs(g.input("x", sizes=[1], dtype="float32"))
    for _ in range(between):
        value = dg.activation_relu(value)
    g.output("y", value + first)
    scene = lay_out(draw(g))
    assert sum(placed.box.kind is Kind.REFERENCE for placed in scene.boxes) == references


def test_above_so_many_edges_most_labels_are_below_the_producers() -> None:
    scene = lay_out(draw(chain(LABELLED)))
    check(scene)
    labelled = [route for route in scene.routes if route.label is not None]
    readers = {route.edge.source for route in scene.routes}
    assert len({route.edge.source for route in labelled}) > 0.9 * len(readers)
    for route in labelled:
        below = scene.boxes[route.edge.source]
        assert route.label is not None
        assert 0 < route.label[1] - below.y - below.height / 2 < 20
    assert labels_are_free(scene) == len(labelled)


def test_a_graph_of_two_thousand_nodes_stays_narrow() -> None:
    scene = lay_out(draw(chain(2000)))
    assert scene.width < 2000


def test_an_empty_graph_and_an_unused_node() -> None:
    g = dg.Graph("g")
    assert lay_out(draw(g)).boxes == ()
    g.input("x", sizes=[1], dtype="float32")
    check(lay_out(draw(g)))
