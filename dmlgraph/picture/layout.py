"""Layout: the positions of everything in a drawing, top to bottom in layers; `layers` computes them.

Edges that would cross very many layers could not be followed and are not drawn: their consumer gets a small box with
the name of the producer instead.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import math
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence

from dmlgraph.picture.drawing import Box, Drawing, Edge, reference
from dmlgraph.picture.layers import HEAD, Point, Size, arrange, layers
from dmlgraph.picture.shapes import SHAPES, Kind

TITLE, LINE, LABEL = 13, 11, 10  # font sizes
LEADING = 1.3  # line height over font size
MARGIN = 20  # around a scene
FRAME_HEAD = 18  # the height of the name of an open scope, in addition to the margin below it
FARTHEST = 24  # the most layers that a drawn edge may span
FARTHEST_SOURCE = 8  # the same for an edge from a source, of which there are often very many
CROSSINGS = 6_000  # the most layers that all drawn edges may span in total, or 4 per node if that is more
LABELLED = 80  # up to so many edges space is reserved for labels, which makes pictures wide; else they lie on the edges
BESIDE = 10  # from a box to the nearest position of a label on an edge
PLACES = 3  # such positions at each end of an edge, one above another
COLUMN = 100  # width of the grid cells in which labels look for others
HALVINGS = 10  # steps of the bisection that finds a label's position on a curve

Cell = tuple[int, int]  # row, column


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
    """An edge with its route (a start, then three points per Bézier curve), its tip, its label's centre."""

    edge: Edge
    points: tuple[Point, ...]
    tip: Point
    label: Point

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
    """A drawing laid out; x to the right, y down, from 0 to `width` and `height`; `notes` are the drawing's."""

    title: str
    width: float
    height: float
    boxes: tuple[Placed, ...]
    routes: tuple[Route, ...]
    groups: Mapping[int, Scene]
    notes: tuple[str, ...] = ()


def lay_out(drawing: Drawing, *, are_open: bool = False) -> Scene:
    """Positions of a drawing's boxes, edges and labels, and the scenes of its groups.

    `are_open`: the boxes of scopes have room for what is inside.
    """
    groups = {index: lay_out(group, are_open=are_open) for index, group in drawing.groups.items()}
    inside = {index: scene for index, scene in groups.items() if are_open and drawing.boxes[index].kind is Kind.FOLDED}
    if not drawing.boxes:
        return Scene(drawing.title, 2 * MARGIN, 2 * MARGIN, (), (), groups, drawing.notes)
    boxes, edges, stands_for = _with_references(drawing)
    sizes = [_frame(box, inside[index]) if index in inside else _size(box) for index, box in enumerate(boxes)]
    rooms = [_room(edge) for edge in edges] if len(edges) <= LABELLED else None
    found = arrange(sizes, [(edge.source, edge.target) for edge in edges], rooms)

    def moved(point: Point) -> Point:
        return point[0] + MARGIN, point[1] + MARGIN

    placed = []
    for index, (box, centre, (width, height)) in enumerate(zip(boxes, found.centres, sizes, strict=True)):
        placed.append(Placed(box, *moved(centre), width, height, stands_for.get(index), inside.get(index)))
    feeds = collections.Counter(edge.source for edge in edges)
    taken: dict[Cell, list[tuple[float, float]]] = collections.defaultdict(list)  # the extents of labels
    routes = []
    for edge, path in zip(edges, found.paths, strict=True):
        points = tuple(map(moved, path.points))
        if path.label is not None:
            label = moved(path.label)
        else:
            label = _label(edge, points, shared=feeds[edge.source] > 1, taken=taken)
        routes.append(Route(edge, points, moved(path.tip), label))
    width, height = found.width + 2 * MARGIN, found.height + 2 * MARGIN
    return Scene(drawing.title, width, height, tuple(placed), tuple(routes), groups, drawing.notes)


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


def _room(edge: Edge) -> Size:
    return text_width(edge.label, LABEL) + 8, LABEL * LEADING


def _size(box: Box) -> Size:
    fonts = [TITLE] + [LINE] * (len(box.lines) - 1)
    across, down = SHAPES[box.kind].slack
    width = max(text_width(line, font) for line, font in zip(box.lines, fonts, strict=True))
    return max(round(width * 1.05 + 22 + across), 60), round(sum(fonts) * LEADING + 14 + down)


def _frame(box: Box, inside: Scene) -> Size:
    """The size of an open scope: what is inside, below its name."""
    return max(inside.width, text_width(box.lines[0], TITLE) + 2 * MARGIN), inside.height + FRAME_HEAD


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


# Labels.


def _label(edge: Edge, points: Sequence[Point], *, shared: bool, taken: dict[Cell, list[tuple[float, float]]]) -> Point:
    """A position on an edge for its label, near the end that fewer edges share, with the least overlap with other
    labels."""
    starts, ends = (
        [height + sign * (BESIDE + index * LABEL * LEADING) for index in range(PLACES)]
        for height, sign in ((points[0][1], 1), (points[-1][1] + HEAD, -1))
    )
    half = text_width(edge.label, LABEL) / 2

    def cells(x: float, y: float, rows: Sequence[int]) -> Iterator[Cell]:
        columns = range(int((x - half) // COLUMN), int((x + half) // COLUMN) + 1)
        return itertools.product((int(y // LABEL) + row for row in rows), columns)

    def covered(place: Point) -> float:
        beside = itertools.chain.from_iterable(taken.get(cell, ()) for cell in cells(*place, (-1, 0, 1)))
        return sum(max(0.0, min(place[0] + half, right) - max(place[0] - half, left)) for left, right in beside)

    places = [_at_height(points, height) for height in ([*ends, *starts] if shared else [*starts, *ends])]
    x, y = min(places, key=covered)
    for cell in cells(x, y, (0,)):
        taken[cell].append((x - half, x + half))
    return x, y


def _at_height(points: Sequence[Point], height: float) -> Point:
    """The point at a height on a chain of Bézier curves that all lead down."""
    pieces = range(0, len(points) - 1, 3)
    start = next((piece for piece in pieces if points[piece + 3][1] >= height), pieces[-1])
    corners, low, high = points[start : start + 4], 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _bezier(corners, middle)[1] < height else (low, middle)
    return _bezier(corners, low)


def _bezier(corners: Sequence[Point], t: float) -> Point:
    weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
    x, y = (sum(weight * corner[axis] for weight, corner in zip(weights, corners, strict=True)) for axis in (0, 1))
    return x, y
