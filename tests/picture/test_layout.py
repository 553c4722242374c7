"""Layout: sources are above consumers, boxes do not overlap, far-away sources are references."""

from __future__ import annotations

import itertools
import math

import pytest
from support.picture.graphs import chain, fused, ramp

import dmlgraph as dg
from dmlgraph.picture.drawing import draw
from dmlgraph.picture.layout import FARTHEST, FARTHEST_SOURCE, LABEL, LABELLED, Placed, Scene, lay_out, text_width
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


def test_labels_have_room_of_their_own() -> None:
    scene = lay_out(draw(ramp()))
    boxes = [Placed(placed.box, placed.x, placed.y, placed.width, placed.height) for placed in scene.boxes]
    labels = [
        Placed(boxes[0].box, *route.label, text_width(route.edge.label, LABEL), float(LABEL)) for route in scene.routes
    ]
    for one, other in itertools.combinations(labels, 2):
        assert not overlap(one, other)
    for label, placed in itertools.product(labels, boxes):
        assert not overlap(label, placed)


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


def test_above_so_many_edges_labels_lie_on_them() -> None:
    scene = lay_out(draw(chain(LABELLED)))
    for route in scene.routes:
        assert route.points[0][1] <= route.label[1] <= route.tip[1]
        assert min(math.dist(route.label, point) for point in route.points) < 60
    check(scene)


def test_a_graph_of_two_thousand_nodes_stays_narrow() -> None:
    scene = lay_out(draw(chain(2000)))
    assert scene.width < 2000


def test_an_empty_graph_and_an_unused_node() -> None:
    g = dg.Graph("g")
    assert lay_out(draw(g)).boxes == ()
    g.input("x", sizes=[1], dtype="float32")
    check(lay_out(draw(g)))
