"""Folding: makes a large drawing small, where users cannot zoom.

Its scopes become boxes.  Where it has none, or too many, neighbouring nodes share one box: the nodes, in execution
order, are cut into pieces of similar size.  A cut is where the fewest tensors cross it, which in a network is between
its layers or blocks.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator, Sequence

from dmlgraph.picture.drawing import Box, Drawing, Edge
from dmlgraph.picture.merging import counted, joined
from dmlgraph.picture.scopes import in_scopes
from dmlgraph.picture.shapes import Kind

MOST_BOXES = 150  # a drawing with more is folded
PIECES = 40  # boxes of a folded drawing, without inputs and outputs
SIDES = 24  # the most inputs and outputs drawn separately; more are folded, too


def fold(drawing: Drawing) -> Drawing:
    """The drawing itself if it is small, else one of at most MOST_BOXES boxes."""
    if len(drawing.boxes) <= MOST_BOXES:
        return drawing
    title = f"{drawing.title}: {len(drawing.boxes):,} boxes, folded"
    scoped = in_scopes(drawing)
    if scoped is not drawing and len(scoped.boxes) <= MOST_BOXES:
        return dataclasses.replace(scoped, title=title)
    pieces = list(_pieces(drawing))
    place = {box: index for index, piece in enumerate(pieces) for box in piece}
    boxes = [_box(drawing, piece) for piece in pieces]
    edges: dict[tuple[int, int], list[Edge]] = collections.defaultdict(list)
    for edge in drawing.edges:
        source, target = place[edge.source], place[edge.target]
        if source != target:
            edges[source, target].append(edge)
    merged = (joined(source, target, among) for (source, target), among in edges.items())
    return Drawing(title, tuple(boxes), tuple(merged), {}, drawing.notes)


def _pieces(drawing: Drawing) -> Iterator[list[int]]:
    """The boxes of each piece; a piece reads only earlier pieces."""
    ends = {Kind.INPUT, Kind.OUTPUT}
    single = {index for index, box in enumerate(drawing.boxes) if box.kind in ends}
    if len(single) > SIDES:
        single = set()
    order = [index for index in _order(drawing) if index not in single]
    yield from ([index] for index in sorted(single))
    step = len(order) / PIECES
    crossing = _crossing(drawing, order)
    begin = 0
    for piece in range(1, PIECES + 1):
        low, high = round((piece - 0.75) * step), round((piece + 0.25) * step)
        end = len(order) if piece == PIECES else min(range(max(low, begin + 1), high), key=crossing.__getitem__)
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


def _crossing(drawing: Drawing, order: Sequence[int]) -> list[int]:
    """The number of tensors that cross a cut at each place of the order."""
    place = {index: at for at, index in enumerate(order)}
    last: dict[int, int] = {}
    for edge in drawing.edges:
        if edge.source in place:
            last[edge.source] = max(last.get(edge.source, 0), place.get(edge.target, len(order)))
    change = [0] * (len(order) + 2)
    for source, reader in last.items():
        change[place[source] + 1] += 1
        change[reader + 1] -= 1
    crossing, now = [], 0
    for step in change:
        now += step
        crossing.append(now)
    return crossing


def _box(drawing: Drawing, piece: Sequence[int]) -> Box:
    boxes = [drawing.boxes[index] for index in piece]
    if len(boxes) == 1:
        return boxes[0]
    lines = (boxes[0].name, f"… {boxes[-1].name}", *counted(boxes))
    rows = (("nodes", ", ".join(box.name for box in boxes)),)
    return dataclasses.replace(boxes[0], kind=Kind.FOLDED, lines=lines, rows=rows, origins=())
