"""Laying an overlay over a drawing: its texts and colours in the boxes."""

from __future__ import annotations

import dataclasses

from dmlgraph.picture.drawing import Box, Drawing
from dmlgraph.picture.overlay import PLAIN, Mark, Overlay
from dmlgraph.picture.shapes import Kind
from dmlgraph.picture.texts import cut

_BARE = (Kind.INPUT, Kind.STATE, Kind.CONSTANT, Kind.OUTPUT)  # of these an overlay says nothing


def laid_over(drawing: Drawing, overlay: Overlay) -> Drawing:
    """The drawing, and what its nodes were fused from, under an overlay."""
    boxes = (marked(box, overlay, None if box.kind in _BARE else overlay.marks.get(box.name)) for box in drawing.boxes)
    groups = {index: laid_over(group, overlay) for index, group in drawing.groups.items()}
    return dataclasses.replace(drawing, boxes=tuple(boxes), groups=groups, overlay=overlay)


def marked(box: Box, overlay: Overlay, mark: Mark | None) -> Box:
    """A box with what an overlay says of it."""
    if mark is None:
        return dataclasses.replace(box, laid=PLAIN)
    rows, lines = (*box.rows, (overlay.title, mark.text)), (*box.lines, cut(mark.text))
    return dataclasses.replace(box, lines=lines, rows=rows, laid=overlay.look(mark), said=mark)
