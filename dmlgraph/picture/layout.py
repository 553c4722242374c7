"""Layout: the positions of everything in a drawing, top to bottom in layers; `layers` computes them.

Edges that would cross very many layers could not be followed and are not drawn: their consumer gets a small box with
the name of the producer instead.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import math
import unicodedata
from collections.abc import Iterable, Mapping

from dmlgraph.picture.drawing import Box, Drawing, Edge, reference
from dmlgraph.picture.layers import Label, Point, Size, arrange, layers
from dmlgraph.picture.overlay import Overlay
from dmlgraph.picture.shapes import SHAPES, Kind

TITLE, LINE, LABEL = 13, 11, 10  # font sizes
LEADING = 1.3  # line height over font size
MARGIN = 20  # around a scene
FRAME_HEAD = 18  # the height of the name of an open scope, in addition to the margin below it
FARTHEST = 24  # the most layers that a drawn edge may span
FARTHEST_SOURCE = 8  # the same for an edge from a source, of which there are often very many
CROSSINGS = 6_000  # the most layers that all drawn edges may span in total, or 4 per node if that is more
LABELLED = 80  # up to so many edges all have labels; else those for which there is space


@dataclasses.dataclass(frozen=True, slots=True)
class Placed:
    """A box with its centre and size; a reference also has the index of its box, an open scope what is inside."""

    box: Box
    x: float
    y: float
    width: float
    height: float
    stands_for: int | None = None
    inside: Scene | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Route:
    """An edge with its route (a start, then three points per Bézier curve), its tip, its label's centre, if any."""

    edge: Edge
    points: tuple[Point, ...]
    tip: Point
    label: Point | None

    @property
    def path(self) -> str:
        """The route as an SVG path."""
        first, *rest = (f"{x:.0f} {y:.0f}" for x, y in self.points)
        return f"M{first}C{' '.join(rest)}"

    @property
    def arrow(self) -> str:
        """The arrow head as an SVG path."""
        (x, y), (tip_x, tip_y) = self.points[-1], self.tip
        length = math.hypot(tip_x - x, tip_y - y) or 1
        across, along = (tip_y - y) / length * 3.5, (tip_x - x) / length * 3.5
        return f"M{tip_x:.1f} {tip_y:.1f}L{x - across:.1f} {y + along:.1f} {x + across:.1f} {y - along:.1f}Z"


@dataclasses.dataclass(frozen=True)
class Scene:
    """A drawing laid out; x to the right, y down, from 0 to `width` and `height`; `notes` are the drawing's.

    `copies`: of the scopes that are alike, the scenes of all but the first, which is its group.
    """

    title: str
    width: float
    height: float
    boxes: tuple[Placed, ...]
    routes: tuple[Route, ...]
    groups: Mapping[int, Scene]
    notes: tuple[str, ...] = ()
    copies: Mapping[int, tuple[Scene, ...]] = dataclasses.field(default_factory=dict)
    overlay: Overlay | None = None


def lay_out(drawing: Drawing, *, are_open: bool = False) -> Scene:
    """Positions of a drawing's boxes, edges and labels, and the scenes of its groups.

    `are_open`: the boxes of scopes have room for what is inside.
    """
    groups = {index: lay_out(group, are_open=are_open) for index, group in drawing.groups.items()}
    copies = {index: tuple(map(lay_out, scenes)) for index, scenes in drawing.copies.items()}
    inside = {index: scene for index, scene in groups.items() if are_open and drawing.boxes[index].kind is Kind.FOLDED}
    if not drawing.boxes:
        return Scene(drawing.title, 2 * MARGIN, 2 * MARGIN, (), (), groups, drawing.notes)
    boxes, edges, stands_for = _with_references(drawing)
    sizes = [_frame(box, inside[index]) if index in inside else _size(box) for index, box in enumerate(boxes)]
    labels = [Label(edge.label, (text_width(edge.label, LABEL), LABEL * LEADING)) for edge in edges]
    pairs = [(edge.source, edge.target) for edge in edges]
    found = arranged_once(tuple(sizes), tuple(pairs), tuple(labels), is_roomy=len(edges) <= LABELLED)

    def moved(point: Point) -> Point:
        return point[0] + MARGIN, point[1] + MARGIN

    placed = []
    for index, (box, centre, (width, height)) in enumerate(zip(boxes, found.centres, sizes, strict=True)):
        placed.append(Placed(box, *moved(centre), width, height, stands_for.get(index), inside.get(index)))
    routes = [
        Route(edge, tuple(map(moved, path.points)), moved(path.tip), path.label and moved(path.label))
        for edge, path in zip(edges, found.paths, strict=True)
    ]
    width, height = found.width + 2 * MARGIN, found.height + 2 * MARGIN
    return Scene(
        drawing.title, width, height, tuple(placed), tuple(routes), groups, drawing.notes, copies, drawing.overlay
    )


def text_width(text: str, size: float) -> float:
    """The width of a text in a common sans-serif font, rather too large than too small."""
    return size * sum(_advance(character) for character in text)


def _advance(character: str) -> float:
    if unicodedata.east_asian_width(character) in "WF":
        return 1.05
    if character in "iljtfI.,:;|!'()[] ":
        return 0.36
    if character in "mwMW@%…—→":
        return 0.95
    return 0.7 if character.isupper() else 0.6


def _size(box: Box) -> Size:
    fonts = [TITLE] + [LINE] * (len(box.texts) - 1)
    across, down = SHAPES[box.kind].slack
    width = max(text_width(line, font) for line, font in zip(box.texts, fonts, strict=True))
    return max(round(width * 1.05 + 22 + across), 60), round(sum(fonts) * LEADING + 14 + down)


def _frame(box: Box, inside: Scene) -> Size:
    """The size of an open scope: what is inside, below its name."""
    return max(inside.width, text_width(box.heading, TITLE) + 2 * MARGIN), inside.height + FRAME_HEAD


arranged_once = functools.lru_cache(maxsize=8)(arrange)  # copies of a scope, one after another, have one arrangement


# References in place of edges that are too long.


def _with_references(drawing: Drawing) -> tuple[list[Box], list[Edge], dict[int, int]]:
    """Boxes and edges with references for far producers, and reference → its box."""
    boxes, edges, stands_for = list(drawing.boxes), [], {}
    layer = layers(len(boxes), [(edge.source, edge.target) for edge in drawing.edges])
    spans = [layer[edge.target] - layer[edge.source] for edge in drawing.edges]
    inner = {edge.target for edge in drawing.edges}
    farthest = _farthest(spans, max(CROSSINGS, 4 * len(boxes)))
    for edge, span in zip(drawing.edges, spans, strict=True):
        if span > (farthest if edge.source in inner else min(farthest, FARTHEST_SOURCE)):
            source = drawing.boxes[edge.source]
            stands_for[len(boxes)] = edge.source
            edges.append(dataclasses.replace(edge, source=len(boxes)))
            boxes.append(reference(source))
        else:
            edges.append(edge)
    return boxes, edges, stands_for


def _farthest(spans: Iterable[int], budget: int) -> int:
    """The longest drawn span, so that the total of all drawn ones stays in the budget."""
    counts = collections.Counter(spans)
    for span in sorted(counts):
        budget -= span * counts[span]
        if span > FARTHEST or (budget < 0 and span > 1):
            return span - 1
    return FARTHEST
