"""Weights in pictures: constants and owned inputs, and views of them, as lines in the boxes that read them."""

from __future__ import annotations

import collections
import dataclasses

from dmlgraph.picture.drawing import Drawing, Edge, Weight
from dmlgraph.picture.texts import cut


def with_weights(drawing: Drawing) -> Drawing:
    """The drawing with each weight as a line in every box that reads it, in its groups too.

    A weight stays a box if an output or a state reads it, if nothing does, or if it was fused from others.
    """
    readers: dict[int, list[Edge]] = collections.defaultdict(list)
    root: dict[int, int] = {}  # of a view of a weight: that weight
    for edge in drawing.edges:
        if drawing.boxes[edge.source].holds:
            readers[edge.source].append(edge)
            if drawing.boxes[edge.target].holds:
                root[edge.target] = root.get(edge.source, edge.source)
    lines: dict[int, list[Weight]] = collections.defaultdict(list)
    inside = {
        source
        for source, edges in readers.items()
        if not drawing.boxes[source].origins and all(edge.field for edge in edges)
    }
    for edge in drawing.edges:
        if edge.source in inside:
            line = cut(f"{edge.field} {drawing.boxes[edge.source].holds}")
            lines[edge.target].append(Weight(line, drawing.boxes[root.get(edge.source, edge.source)]))
    kept = [index for index in range(len(drawing.boxes)) if index not in inside]
    place = {index: each for each, index in enumerate(kept)}
    boxes = (dataclasses.replace(drawing.boxes[index], weights=tuple(lines[index])) for index in kept)
    edges = (
        dataclasses.replace(edge, source=place[edge.source], target=place[edge.target])
        for edge in drawing.edges
        if edge.source not in inside
    )
    groups = {place[index]: with_weights(group) for index, group in drawing.groups.items()}
    return dataclasses.replace(drawing, boxes=tuple(boxes), edges=tuple(edges), groups=groups)
