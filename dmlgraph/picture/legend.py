"""The legend of a picture: the kinds and the families that are in it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from dmlgraph.picture.drawing import Box
from dmlgraph.picture.families import Family
from dmlgraph.picture.overlay import Overlay
from dmlgraph.picture.shapes import LOOKS, SHAPES, Kind

SWATCH = (28.0, 16.0)  # width and height of a box in the legend


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """A box of the legend: the name of its colours, its text, its outline; of an operator its family."""

    look: str
    text: str
    outline: str
    family: Family | None


def legend(boxes: Iterable[Box], overlay: Overlay | None = None) -> list[Entry]:
    """What stands in the legend of these boxes; a weight in another box has none.  An overlay has its scale."""
    if overlay is not None:
        outline = SHAPES[Kind.OPERATOR].outline(*SWATCH)
        return [Entry(look, text, outline, None) for look, text in overlay.legend().items()]
    found = {(box.look, box.kind) for box in boxes}
    kinds = dict(found)
    families = {str(family): family for family in Family}
    entries = []
    for look in LOOKS:
        if look in kinds:
            kind = kinds[look]
            width, height = SWATCH
            outline = SHAPES[kind].outline(width, height + (4 if kind is Kind.CONSTANT else 0))
            entries.append(Entry(look, SHAPES[kind].legend if look == kind else look, outline, families.get(look)))
    return entries
