"""Merging: what stands for several boxes, or for several edges between them, and where to cut."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Sequence

from dmlgraph.picture.drawing import Box, Drawing, Edge
from dmlgraph.picture.shapes import Kind

NAMED = 3  # operators that a box of several nodes counts by name


def counted(boxes: Sequence[Box], most: int | None = NAMED) -> list[str]:
    """How many nodes there are of each operator or kind, the most frequent first."""
    kinds = (box.lines[1] if box.kind in (Kind.OPERATOR, Kind.FUSED) else str(box.kind) for box in boxes)
    common = collections.Counter(kinds).most_common(most)
    rest = len(boxes) - sum(count for _, count in common)
    return [f"{count:,} × {name}" for name, count in common] + ([f"{rest:,} more"] if rest else [])


def joined(source: int, target: int, among: Sequence[Edge]) -> Edge:
    """One edge for all tensors from one box to another."""
    first, tensors = among[0], {(edge.source, edge.label) for edge in among}
    label = first.label if len(tensors) == 1 else f"{len(tensors)} tensors"
    rows = first.rows if len(among) == 1 else (("tensors", ", ".join(sorted(label for _, label in tensors))),)
    return Edge(source, target, label, rows)


def crossing(drawing: Drawing, order: Sequence[int]) -> list[int]:
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
    return list(itertools.accumulate(change))
