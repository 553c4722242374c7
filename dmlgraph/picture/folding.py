"""Folding: makes a large drawing small, where users cannot zoom.

Its scopes become boxes.  Where it has none, or too many, neighbouring nodes share one box: the nodes, in execution
order, are cut into pieces of similar size.  A cut is where the fewest tensors cross it.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator

from dmlgraph.graph.scopes import SEPARATOR
from dmlgraph.picture.drawing import Drawing
from dmlgraph.picture.guesses import Path
from dmlgraph.picture.merging import crossing
from dmlgraph.picture.scopes import MOST_BOXES, in_scopes
from dmlgraph.picture.shapes import Kind
from dmlgraph.picture.weights import with_weights

PIECES = 40  # boxes of a folded drawing, without inputs and outputs
SIDES = 24  # the most inputs and outputs drawn separately; more are folded, too


def fold(drawing: Drawing) -> Drawing:
    """The drawing itself if it is small, else one of at most MOST_BOXES boxes."""
    if len(drawing.boxes) <= MOST_BOXES:
        return drawing
    whole = with_weights(drawing)
    scoped = in_scopes(whole)
    if len(scoped.boxes) > MOST_BOXES:
        scoped = in_scopes(whole, _paths(whole))
    return dataclasses.replace(scoped, title=f"{drawing.title}: {len(drawing.boxes):,} boxes, folded")


def _paths(drawing: Drawing) -> list[Path]:
    """The piece in which each box is, as its scope."""
    paths: list[Path] = [[] for _ in drawing.boxes]
    for piece in _pieces(drawing):
        first, last = (drawing.boxes[piece[end]].name.replace(SEPARATOR, "·") for end in (0, -1))
        for index in piece:
            paths[index] = [f"{first} … {last}"]
    return paths


def _pieces(drawing: Drawing) -> Iterator[list[int]]:
    """The boxes of each piece; a piece reads only earlier pieces."""
    ends = {Kind.INPUT, Kind.OUTPUT}
    single = {index for index, box in enumerate(drawing.boxes) if box.kind in ends}
    if len(single) > SIDES:
        single = set()
    order = [index for index in _order(drawing) if index not in single]
    step = len(order) / PIECES
    cuts = crossing(drawing, order)
    begin = 0
    for piece in range(1, PIECES + 1):
        low, high = round((piece - 0.75) * step), round((piece + 0.25) * step)
        end = len(order) if piece == PIECES else min(range(max(low, begin + 1), high), key=cuts.__getitem__)
        yield order[begin:end]
        begin = end


def _order(drawing: Drawing) -> list[int]:
    """The boxes, each after its producers, and sources right before the first box that reads them."""
    producers = collections.defaultdict(list)
    for edge in drawing.edges:
        producers[edge.target].append(edge.source)
    order: dict[int, None] = {}
    for index in range(len(drawing.boxes)):  # execution order
        if producers[index]:
            order.update(dict.fromkeys(source for source in producers[index] if not producers[source]))
            order[index] = None
    order.update(dict.fromkeys(range(len(drawing.boxes))))  # and boxes that nothing reads
    return list(order)
