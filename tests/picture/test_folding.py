"""Folding: small drawings stay unchanged, large ones become few boxes with the same data flow."""

from __future__ import annotations

import itertools

import pytest
from support.picture.graphs import apart, irregular, ramp, wide

from dmlgraph.picture import svg
from dmlgraph.picture.drawing import Drawing, draw
from dmlgraph.picture.folding import PIECES, fold
from dmlgraph.picture.scopes import MOST_BOXES
from dmlgraph.picture.shapes import Kind

LARGE = {"irregular": lambda: irregular(900), "wide": wide, "apart": apart}


def members(drawing: Drawing) -> list[str]:
    """The names of all nodes in the boxes of a folded drawing."""
    rows = (
        members(drawing.groups[index]) if index in drawing.groups else [box.name]
        for index, box in enumerate(drawing.boxes)
        if box.kind is not Kind.REFERENCE
    )
    return list(itertools.chain.from_iterable(rows))


def test_a_small_drawing_stays() -> None:
    drawing = draw(ramp())
    assert fold(drawing) is drawing


@pytest.mark.parametrize("name", LARGE)
def test_a_large_drawing_has_few_boxes_and_every_node_is_in_one(name: str) -> None:
    drawing = draw(LARGE[name]())
    folded = fold(drawing)
    assert len(folded.boxes) <= MOST_BOXES < len(drawing.boxes)
    assert sorted(members(folded)) == sorted(box.name for box in drawing.boxes)


@pytest.mark.parametrize("name", LARGE)
def test_a_folded_drawing_has_no_cycle_and_an_edge_wherever_a_tensor_flows(name: str) -> None:
    drawing = draw(LARGE[name]())
    folded = fold(drawing)
    waits = {
        index: {edge.source for edge in folded.edges if edge.target == index} for index in range(len(folded.boxes))
    }
    while waits:
        ready = [index for index, sources in waits.items() if not sources & set(waits)]
        assert ready, "a cycle"
        for index in ready:
            del waits[index]
    pairs = {(edge.source, edge.target) for edge in folded.edges}
    assert len(pairs) == len(folded.edges)


def test_cuts_go_where_one_tensor_flows() -> None:
    """Blocks of random nodes with a residual: nearly all edges lead to the next box."""
    folded = fold(draw(irregular(900)))
    pieces = [box for box in folded.boxes if box.kind is Kind.FOLDED]
    assert PIECES / 2 < len(pieces) <= PIECES
    assert len(folded.edges) < 1.5 * len(folded.boxes)


def test_a_folded_box_counts_what_is_in_it() -> None:
    box = next(box for box in fold(draw(irregular(900))).boxes if box.kind is Kind.FOLDED)
    assert box.lines[1].endswith(" nodes")
    assert any("× " in line for line in box.lines[2:])


def test_a_notebook_draws_a_large_graph_folded() -> None:
    graph = irregular(900)
    shown = graph._repr_svg_()
    assert shown == svg.render([fold(draw(graph))])
    assert "folded" in shown
    assert len(shown) < 200_000 < len(svg.render([draw(graph)]))
