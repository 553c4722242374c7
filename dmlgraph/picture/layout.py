"""Layout: where everything of a drawing stands, top to bottom in layers; Graphviz's `dot` finds the places.

Graphviz comes inside the wheels of pygraphviz and runs in this process.  It is told sizes only, no names.  Edges
that would cross very many layers are not drawn across them, which would be slow to lay out and impossible to
follow: at their reader stands a small box with the name of the node they come from.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import math
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from dmlgraph.errors import DmlGraphError
from dmlgraph.picture.drawing import Box, Drawing, Edge
from dmlgraph.picture.shapes import SHAPES, Kind

if TYPE_CHECKING:
    import pygraphviz  # type: ignore[import-untyped]

TITLE, LINE, LABEL = 13, 11, 10  # font sizes
LEADING = 1.3  # line height over font size
MARGIN = 20  # around a scene
FARTHEST = 24  # layers that an edge may span and still be drawn across them
FARTHEST_SOURCE = 8  # the same for an edge that comes of a source, of which there are often very many
CROSSINGS = 6_000  # layers that all drawn edges may span together, or 4 for each node if that is more
LABELLED = (
    80  # up to so many edges Graphviz makes room for labels, at the price of time and width; else they lie on them
)
BESIDE = 18  # from a box to a label that lies on an edge: half of what is between two layers then
STEPS = 12  # points of a curve that are looked at for a label's place

Point = tuple[float, float]


@dataclasses.dataclass(frozen=True, slots=True)
class Placed:
    """A box with its centre and size; a reference also with the index of the box that it stands for."""

    box: Box
    x: float
    y: float
    width: float
    height: float
    stands_for: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Route:
    """An edge with its way (a start and Bézier curves of three more points each), its tip, its label's centre."""

    edge: Edge
    points: tuple[Point, ...]
    tip: Point
    label: Point

    @property
    def path(self) -> str:
        """As an SVG path."""
        first, *rest = (f"{x:.0f} {y:.0f}" for x, y in self.points)
        return f"M{first}C{' '.join(rest)}"

    @property
    def arrow(self) -> str:
        """Its arrow head as an SVG path."""
        (x, y), (tip_x, tip_y) = self.points[-1], self.tip
        length = math.hypot(tip_x - x, tip_y - y) or 1
        across, along = (tip_y - y) / length * 3.5, (tip_x - x) / length * 3.5
        return f"M{tip_x:.1f} {tip_y:.1f}L{x - across:.1f} {y + along:.1f} {x + across:.1f} {y - along:.1f}Z"


@dataclasses.dataclass(frozen=True)
class Scene:
    """A drawing laid out; x to the right, y down, from 0 to `width` and `height`."""

    title: str
    width: float
    height: float
    boxes: tuple[Placed, ...]
    routes: tuple[Route, ...]
    groups: Mapping[int, Scene]


def lay_out(drawing: Drawing) -> Scene:
    """The places of a drawing's boxes, edges and labels, and the scenes of its groups.

    Raises:
        DmlGraphError: pygraphviz is missing or does not work here.
    """
    spans = _spans(len(drawing.boxes), drawing.edges)
    boxes, edges, stands_for = _with_references(drawing, spans)
    sizes = [_size(box) for box in boxes]
    groups = {index: lay_out(group) for index, group in drawing.groups.items()}
    if not boxes:
        return Scene(drawing.title, 2 * MARGIN, 2 * MARGIN, (), (), groups)
    inner = {edge.target for edge in edges}  # what comes of these flows straight down; sources stand at its side
    straight = [edge.source in inner and span == 1 for edge, span in zip(edges, spans, strict=True)]
    graph = _run(sizes, edges, straight)
    left, bottom, right, top = (float(each) for each in graph.graph_attr["bb"].split(","))

    def point(text: str) -> Point:
        x, y = text.split(",")
        return float(x) - left + MARGIN, top - float(y) + MARGIN

    placed = []
    for index, (box, (width, height)) in enumerate(zip(boxes, sizes, strict=True)):
        x, y = point(graph.get_node(index).attr["pos"])
        placed.append(Placed(box, x, y, width, height, stands_for.get(index)))
    feeds = collections.Counter(edge.source for edge in edges)
    rows: dict[int, list[tuple[float, float]]] = collections.defaultdict(list)  # from where to where labels lie
    routes = []
    for index, edge in enumerate(edges):
        attributes = graph.get_edge(edge.source, edge.target, str(index)).attr
        tip, *points = (point(each) for each in attributes["pos"].removeprefix("e,").partition(";")[0].split())
        if attributes["lp"]:
            label = point(attributes["lp"])
        else:
            label = _label(edge, points, shared=feeds[edge.source] > 1, rows=rows)
        routes.append(Route(edge, tuple(points), tip, label))
    width, height = right - left + 2 * MARGIN, top - bottom + 2 * MARGIN
    return Scene(drawing.title, width, height, tuple(placed), tuple(routes), groups)


def text_width(text: str, size: float) -> float:
    """What a text takes in a common sans-serif font; rather more than less."""
    return size * sum(_advance(character) for character in text)


def _advance(character: str) -> float:
    if unicodedata.east_asian_width(character) in "WF":
        return 1.05
    if character in "iljtfI.,:;|!'()[] ":
        return 0.36
    if character in "mwMW@%…—→":
        return 0.95
    return 0.7 if character.isupper() else 0.6


def _size(box: Box) -> tuple[float, float]:
    fonts = [TITLE] + [LINE] * (len(box.lines) - 1)
    across, down = SHAPES[box.kind].slack
    width = max(text_width(line, font) for line, font in zip(box.lines, fonts, strict=True))
    return max(round(width * 1.05 + 22 + across), 60), round(sum(fonts) * LEADING + 14 + down)


# References in place of edges that are too long.


def _with_references(drawing: Drawing, spans: Sequence[int]) -> tuple[list[Box], list[Edge], dict[int, int]]:
    """Boxes and edges with references for what is far away, and reference → the box it stands for."""
    boxes, edges, stands_for = list(drawing.boxes), [], {}
    inner = {edge.target for edge in drawing.edges}
    farthest = _farthest(spans, max(CROSSINGS, 4 * len(boxes)))
    for edge, span in zip(drawing.edges, spans, strict=True):
        if span > (farthest if edge.source in inner else min(farthest, FARTHEST_SOURCE)):
            source = drawing.boxes[edge.source]
            stands_for[len(boxes)] = edge.source
            edges.append(dataclasses.replace(edge, source=len(boxes)))
            boxes.append(Box(source.name, Kind.REFERENCE, (f"↑ {source.lines[0]}",), source.rows))
        else:
            edges.append(edge)
    return boxes, edges, stands_for


def _spans(count: int, edges: Sequence[Edge]) -> list[int]:
    """How many layers each edge crosses, where every box stands as high as its sources let it.

    A source itself stands right above the first of its readers.
    """
    into = collections.defaultdict(list)
    for edge in edges:
        into[edge.target].append(edge.source)
    layer = [0] * count
    for index in _in_order(count, edges):
        layer[index] = max((layer[source] + 1 for source in into[index]), default=0)
    highest = list(layer)
    for edge in edges:
        if not into[edge.source]:
            first = highest[edge.source]
            highest[edge.source] = layer[edge.target] - 1 if first == 0 else min(first, layer[edge.target] - 1)
    return [layer[edge.target] - highest[edge.source] for edge in edges]


def _in_order(count: int, edges: Iterable[Edge]) -> Iterator[int]:
    """The boxes, each behind its sources."""
    waits, readers = [0] * count, collections.defaultdict(list)
    for edge in edges:
        waits[edge.target] += 1
        readers[edge.source].append(edge.target)
    ready = [index for index in range(count) if not waits[index]]
    while ready:
        index = ready.pop()
        yield index
        for reader in readers[index]:
            waits[reader] -= 1
            if not waits[reader]:
                ready.append(reader)


def _farthest(spans: Iterable[int], budget: int) -> int:
    """The longest span that is drawn, so that all drawn ones together stay in the budget."""
    counts = collections.Counter(spans)
    for span in sorted(counts):
        budget -= span * counts[span]
        if span > FARTHEST or (budget < 0 and span > 1):
            return span - 1
    return FARTHEST


# Graphviz.


def _run(sizes: Sequence[tuple[float, float]], edges: Sequence[Edge], straight: Sequence[bool]) -> pygraphviz.AGraph:
    try:
        import pygraphviz  # takes a while, and only pictures need it
    except ImportError as error:
        raise DmlGraphError(
            f"pictures are laid out by Graphviz, and its Python package does not work here: {error}",
            hint="pip install pygraphviz; or ask for DOT or Mermaid, which other programs lay out",
        ) from None
    graph = pygraphviz.AGraph(string="\n".join(_dot(sizes, edges, straight)))
    graph.layout("dot")
    return graph


def _dot(sizes: Sequence[tuple[float, float]], edges: Sequence[Edge], straight: Sequence[bool]) -> Iterator[str]:
    labelled = len(edges) <= LABELLED
    yield "digraph {"
    yield f"graph [nodesep=0.3 ranksep={0.3 if labelled else 0.5} nslimit=1 nslimit1=1 mclimit=0.4]"
    yield 'node [shape=box fixedsize=true label=""] edge [arrowsize=0.7]'
    for index, (width, height) in enumerate(sizes):
        yield f"{index} [width={width / 72:.3f} height={height / 72:.3f}]"
    for index, edge in enumerate(edges):
        label = f" label={_room(edge.label)}" if labelled else ""
        yield f"{edge.source} -> {edge.target} [key={index} weight={8 if straight[index] else 1}{label}]"
    yield "}"


def _room(label: str) -> str:
    """An empty table as wide and high as a label: Graphviz has no other fonts than its own."""
    width, height = round(text_width(label, LABEL)) + 8, round(LABEL * LEADING)
    options = 'BORDER="0" CELLBORDER="0" CELLPADDING="0" CELLSPACING="0" FIXEDSIZE="TRUE"'
    return f'<<TABLE {options} WIDTH="{width}" HEIGHT="{height}"><TR><TD></TD></TR></TABLE>>'


def _label(edge: Edge, points: Sequence[Point], *, shared: bool, rows: dict[int, list[tuple[float, float]]]) -> Point:
    """A place on an edge for its label: next to the end that fewer edges share, unless a label lies there."""
    heights = [points[0][1] + BESIDE, points[-1][1] - BESIDE / 2, (points[0][1] + points[-1][1]) / 2]
    if shared:
        heights[0], heights[1] = heights[1], heights[0]
    half = text_width(edge.label, LABEL) / 2
    places = [_at_height(points, height) for height in heights]
    for x, y in places:
        taken = itertools.chain.from_iterable(rows.get(int(y // LABEL) + step, ()) for step in (-1, 0, 1))
        if all(x + half < left or x - half > right for left, right in taken):
            break
    else:
        x, y = places[0]
    rows[int(y // LABEL)].append((x - half, x + half))
    return x, y


def _at_height(points: Sequence[Point], height: float) -> Point:
    """The point of a chain of Bézier curves that is nearest to a height."""
    along = (
        _bezier(points[start : start + 4], step / STEPS)
        for start in range(0, len(points) - 1, 3)
        for step in range(STEPS + 1)
    )
    return min(along, key=lambda point: abs(point[1] - height))


def _bezier(corners: Sequence[Point], t: float) -> Point:
    weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
    x, y = (sum(weight * corner[axis] for weight, corner in zip(weights, corners, strict=True)) for axis in (0, 1))
    return x, y
