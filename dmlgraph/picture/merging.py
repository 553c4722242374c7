"""Merging: what stands for several boxes, or for several edges between them."""

from __future__ import annotations

import collections
from collections.abc import Sequence

from dmlgraph.picture.drawing import Box, Edge
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
