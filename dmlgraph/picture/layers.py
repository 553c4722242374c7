"""Layers: positions for boxes of given sizes and routes for their edges, top to bottom (Sugiyama's method).

Every box is in a layer below its producers.  An edge that spans several layers gets a cell in each layer between, which
it shares with other edges of its producer, so that no edge crosses a box.  The cells of a layer are ordered so that few
edges cross, then moved sideways so that edges are straight.  A label stands beside its edge, where all edges go
straight down.  Disconnected parts of the graph are arranged separately and packed in rows.

Lengths are in pixels, x to the right, y down.
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence

from dmlgraph.picture.ordering import Pair, ordered

Point = tuple[float, float]
Size = tuple[float, float]  # width, height

BESIDE = 22  # space between two boxes of a layer
BESIDE_EDGE = 10  # space between an edge and its neighbour
BETWEEN = 40  # space between layers
BETWEEN_LABELLED = 22  # the same where labels have their own layers between those of the boxes
BETWEEN_PARTS = 40  # space between parts
BAND = 15  # height of the band below the boxes of a layer, for labels without layers of their own
TO_LABEL = 4  # from an edge to its label
ASPECT = 1.6  # the preferred width over height of the rows of parts
HEAD = 7  # length of an arrow's head
PORTS = 12  # space between two edges that end at the same side of a box
PORT_SHARE = 0.7  # the part of a side, around its middle, where edges may end
MAIN = 4  # weight of a line of boxes, relative to an edge of the same length, which has twice as many layers
PLACINGS = 6  # rounds of moving cells sideways


@dataclasses.dataclass(frozen=True, slots=True)
class EdgePath:
    """The route of an edge.

    Attributes:
        points: a start, then three points for each Bézier curve.
        tip: the end of the arrow's head.
        label: the centre of the label; None if there is no free space, or another edge of its producer has it.
    """

    points: tuple[Point, ...]
    tip: Point
    label: Point | None


@dataclasses.dataclass(frozen=True, slots=True)
class Label:
    """What stands beside an edge, with its size; edges from one box with the same text can share one."""

    text: str
    size: Size


@dataclasses.dataclass(frozen=True, slots=True)
class Arrangement:
    """The result: the boxes' centres, the edges' routes, and the total size."""

    centres: tuple[Point, ...]
    paths: tuple[EdgePath, ...]
    width: float
    height: float


def arrange(sizes: Sequence[Size], edges: Sequence[Pair], labels: Sequence[Label], *, is_roomy: bool) -> Arrangement:
    """Arranges boxes and edges.

    Args:
        sizes: the sizes of the boxes.
        edges: without cycles.
        labels: of the edges.
        is_roomy: every label has space reserved, in a layer above the consumer, which makes wide pictures; else
            labels are where there is space below the producer.
    """
    parts = [_Part(sizes, edges, labels, *part, is_roomy=is_roomy) for part in _connected(len(sizes), edges)]
    centres: list[Point] = [(0.0, 0.0)] * len(sizes)
    paths: list[EdgePath] = [EdgePath((), (0.0, 0.0), None)] * len(edges)
    right = bottom = 0.0
    for part, (left, top) in zip(parts, _rows(parts), strict=True):
        for box, (x, y) in part.centres():
            centres[box] = (x + left, y + top)
        for edge, path in part.paths():
            paths[edge] = _moved(path, left, top)
        right, bottom = max(right, left + part.width), max(bottom, top + part.height)
    return Arrangement(tuple(centres), tuple(paths), right, bottom)


def layers(count: int, edges: Sequence[Pair]) -> list[int]:
    """The layer of each box, from 0: below its producers, and close to its consumers where that shortens more edges.

    A source (a box without producers) is right above the first of its consumers.
    """
    producers, consumers = _neighbours(count, edges)
    order = _in_order(count, edges)
    layer = [0] * count
    for box in order:
        layer[box] = max((layer[producer] + 1 for producer in producers[box]), default=0)
    for box in reversed(order):
        if not consumers[box]:
            continue
        held = sum(1 for producer in producers[box] if producers[producer])  # sources move with it
        if len(consumers[box]) > held:
            layer[box] = min(layer[consumer] for consumer in consumers[box]) - 1
    return layer


def spread(wanted: Sequence[float], weights: Sequence[float], gaps: Sequence[float]) -> list[float]:
    """Positions in the given order, at least the gaps apart, as close to the wanted ones as possible.

    Minimises the weighted sum of distances by pooling adjacent violators.  It uses distances, not their squares: a
    heavy cell stays where it should be, regardless of the number of light neighbours.

    Args:
        wanted, weights: n of each; weights above 0.
        gaps: n − 1, from each position to the next.
    """
    offsets = [0.0, *itertools.accumulate(gaps)]
    pools: list[tuple[float, list[tuple[float, float]]]] = []  # each pool's median and content
    for place, weight, offset in zip(wanted, weights, offsets, strict=True):
        pool = [(place - offset, weight)]
        middle = place - offset
        while pools and pools[-1][0] >= middle:
            pool += pools.pop()[1]
            middle = _median(pool)
        pools.append((middle, pool))
    middles = itertools.chain.from_iterable([middle] * len(pool) for middle, pool in pools)
    return [middle + offset for middle, offset in zip(middles, offsets, strict=True)]


class _Part:
    """A connected part of the graph, arranged with its upper left corner at 0, 0.

    A cell is a box, a place where an edge crosses a layer, or a label.  Boxes come first, in the order of `boxes`.
    """

    def __init__(
        self,
        sizes: Sequence[Size],
        edges: Sequence[Pair],
        labels: Sequence[Label],
        boxes: Sequence[int],
        own_edges: Sequence[int],
        *,
        is_roomy: bool,
    ) -> None:
        self._boxes, self._edges = boxes, own_edges
        place = {box: index for index, box in enumerate(boxes)}
        self._pairs = [(place[edges[edge][0]], place[edges[edge][1]]) for edge in own_edges]
        self._labels = [labels[edge] for edge in own_edges]
        self._is_roomy = is_roomy
        step = 2 if is_roomy else 1
        self._sizes = [sizes[box] for box in boxes]
        self._reach = [(width / 2, width / 2) for width, _ in self._sizes]
        self._layer = [each * step for each in layers(len(boxes), self._pairs)]
        lowest = min(self._layer)
        self._layer = [each - lowest for each in self._layer]
        self._chains = self._make_chains()
        self._link()
        rows = ordered(self._layer, self._above, self._below)
        self._x = self._place(rows)
        self._set_heights(rows)
        self._starts, self._ends = self._ports(0), self._ports(-1)
        self._beside = dict(self._in_layers() if is_roomy else self._in_bands())
        self._set_width()

    def centres(self) -> Iterator[tuple[int, Point]]:
        """(box, its centre)."""
        for index, box in enumerate(self._boxes):
            yield box, (self._x[index] - self._left, self._middle[self._layer[index]])

    def paths(self) -> Iterator[tuple[int, EdgePath]]:
        """(edge, its route)."""
        for index, edge in enumerate(self._edges):
            path = self._path(self._chains[index], self._starts[index], self._ends[index], self._beside.get(index))
            yield edge, _moved(path, -self._left, 0)

    # Cells and the segments between them.

    def _make_chains(self) -> list[list[int]]:
        """The cells of each edge, from its producer to its consumer."""
        crossing: dict[Pair, int] = {}  # producer, layer → the cell that its edges share there

        def cell(right: float, height: float, layer: int) -> int:
            self._reach.append((0.0, right))
            self._sizes.append((right, height))
            self._layer.append(layer)
            return len(self._sizes) - 1

        chains = []
        for index, (source, target) in enumerate(self._pairs):
            chain = [source]
            last = self._layer[target] - self._is_roomy
            for layer in range(self._layer[source] + 1, last):
                if (source, layer) not in crossing:
                    crossing[source, layer] = cell(0, 0, layer)
                chain.append(crossing[source, layer])
            if self._is_roomy:
                width, height = self._labels[index].size
                chain.append(cell(TO_LABEL + width, height, last))
            chains.append([*chain, target])
        return chains

    def _link(self) -> None:
        """The neighbours of each cell above and below, with weights.

        A straight line weighs as much as its length: the main line of a graph does not yield to a branch, and a shift
        at one layer does not continue through all layers.
        """
        count, boxes = len(self._sizes), len(self._boxes)
        lines = _lines(boxes, [chain for chain in self._chains if len(chain) == 2 + self._is_roomy])
        weights: dict[Pair, int] = {}
        for chain in self._chains:
            line = lines.get((chain[0], chain[-1]), 1) * MAIN
            for upper, lower in itertools.pairwise(chain):
                weight = len(chain) if upper >= boxes and lower >= boxes else line
                weights[upper, lower] = max(weights.get((upper, lower), 0), weight)
        self._above: list[list[Pair]] = [[] for _ in range(count)]
        self._below: list[list[Pair]] = [[] for _ in range(count)]
        for (upper, lower), weight in weights.items():
            self._below[upper].append((lower, weight))
            self._above[lower].append((upper, weight))

    # Places.

    def _place(self, rows: Sequence[Sequence[int]]) -> list[float]:
        """The x position of every cell."""
        x = [0.0] * len(self._sizes)
        gaps = [[self._gap(one, other) for one, other in itertools.pairwise(row)] for row in rows]
        for row, between in zip(rows, gaps, strict=True):
            start = -sum(between) / 2
            for cell, offset in zip(row, itertools.accumulate([start, *between]), strict=True):
                x[cell] = offset
        down, up = range(len(rows)), range(len(rows) - 1, -1, -1)
        # The last pass goes down: an edge that moved aside for a box stays there until it ends.
        passes = [(down, self._above), *[(up, self._below), (down, self._above)] * PLACINGS]
        for order, neighbours in passes:
            for index in order:
                self._move(x, rows[index], gaps[index], neighbours)
        return x

    def _gap(self, one: int, other: int) -> float:
        beside = BESIDE if max(one, other) < len(self._boxes) else BESIDE_EDGE
        return self._reach[one][1] + self._reach[other][0] + beside

    @staticmethod
    def _move(x: list[float], row: Sequence[int], gaps: Sequence[float], neighbours: Sequence[Sequence[Pair]]) -> None:
        """Moves the cells of a layer towards their neighbours."""
        wanted, weights = [], []
        for cell in row:
            if neighbours[cell]:
                wanted.append(_median([(x[other], float(weight)) for other, weight in neighbours[cell]]))
                weights.append(float(sum(weight for _, weight in neighbours[cell])))
            else:
                wanted.append(x[cell])
                weights.append(0.01)
        for cell, place in zip(row, spread(wanted, weights, gaps), strict=True):
            x[cell] = place

    def _set_heights(self, rows: Sequence[Sequence[int]]) -> None:
        between = BETWEEN_LABELLED if self._is_roomy else BETWEEN
        band = 0 if self._is_roomy else BAND
        heights = [max((self._sizes[cell][1] for cell in row), default=0) for row in rows]
        self._top = [0.0, *itertools.accumulate(height + band + between for height in heights)][:-1]
        self._middle = [top + height / 2 for top, height in zip(self._top, heights, strict=True)]
        self._bottom = [top + height + band for top, height in zip(self._top, heights, strict=True)]
        self.height = self._bottom[-1] - band

    def _set_width(self) -> None:
        cells = zip(self._x, self._reach, strict=True)
        extents = [(x - left, x + right) for x, (left, right) in cells]
        widths = ((self._beside[index][0], self._labels[index].size[0] / 2) for index in self._beside)
        extents += [(x - half, x + half) for x, half in widths]
        self._left = min(left for left, _ in extents)
        self.width = max(right for _, right in extents) - self._left

    # Labels.

    def _in_layers(self) -> Iterator[tuple[int, Point]]:
        """(edge, the centre of its label), where labels have their own layers."""
        for index, chain in enumerate(self._chains):
            cell = chain[-2]
            x = self._x[cell] + TO_LABEL + self._labels[index].size[0] / 2
            yield index, (x, self._middle[self._layer[cell]])

    def _in_bands(self) -> Iterator[tuple[int, Point]]:
        """The same, where labels are below the producers, between all that goes straight down there."""
        taken: dict[int, list[float]] = collections.defaultdict(list)  # by layer: both sides of each line and label
        sharing: dict[tuple[int, str], list[int]] = collections.defaultdict(list)
        for index, chain in enumerate(self._chains):
            taken[self._layer[chain[0]]] += [self._starts[index]] * 2
            sharing[chain[0], self._labels[index].text].append(index)
        for cell in range(len(self._boxes), len(self._x)):
            taken[self._layer[cell]] += [self._x[cell]] * 2
        for places in taken.values():
            places.sort()
        for (box, _), edges in sharing.items():
            layer, width = self._layer[box], self._labels[edges[0]].size[0]
            for left, index in self._sides(edges, width):
                at = bisect.bisect_left(taken[layer], left - TO_LABEL / 2)
                if at % 2 == 0 and at == bisect.bisect_left(taken[layer], left + width + TO_LABEL / 2):
                    taken[layer][at:at] = [left, left + width]
                    yield index, (left + width / 2, self._bottom[layer] - BAND / 2)
                    break

    def _sides(self, edges: Sequence[int], width: float) -> Iterator[tuple[float, int]]:
        """(where a label begins, its edge): to the right of each edge, then to the left."""
        ordered = sorted(edges, key=self._starts.__getitem__)
        yield from ((self._starts[index] + TO_LABEL, index) for index in reversed(ordered))
        yield from ((self._starts[index] - TO_LABEL - width, index) for index in ordered)

    # Ways.

    def _ports(self, end: int) -> list[float]:
        """The x position of each edge's start (end 0) or end (−1); edges from a box to the same cell share a start."""
        at: dict[int, dict[object, list[int]]] = collections.defaultdict(lambda: collections.defaultdict(list))
        for index, chain in enumerate(self._chains):
            group: object = chain[1] if end == 0 else (chain[-2], index)
            at[chain[end]][group].append(index)
        ports = [0.0] * len(self._chains)
        for box, groups in at.items():
            neighbour = {key: self._x[key if isinstance(key, int) else key[0]] for key in groups}  # type: ignore[index]
            keys = sorted(groups, key=neighbour.__getitem__)
            room = self._sizes[box][0] * PORT_SHARE
            gap = min(PORTS, room / max(len(keys) - 1, 1))
            low, high = self._x[box] - room / 2, self._x[box] + room / 2
            wanted = [
                min(max(neighbour[key], low + index * gap), high - (len(keys) - 1 - index) * gap)
                for index, key in enumerate(keys)
            ]
            places = spread(wanted, [1.0] * len(keys), [gap] * (len(keys) - 1))
            for key, place in zip(keys, places, strict=True):
                for index in groups[key]:
                    ports[index] = place
        return ports

    def _path(self, chain: Sequence[int], start: float, end: float, label: Point | None) -> EdgePath:
        source, target = chain[0], chain[-1]
        tip = (end, self._middle[self._layer[target]] - self._sizes[target][1] / 2)
        stops = [
            (start, self._middle[self._layer[source]] + self._sizes[source][1] / 2),
            (start, self._bottom[self._layer[source]]),
        ]
        for cell in chain[1:-1]:
            layer = self._layer[cell]
            stops += [(self._x[cell], self._top[layer]), (self._x[cell], self._bottom[layer])]
        stops += [(end, self._top[self._layer[target]] - HEAD), (end, tip[1] - HEAD)]
        return EdgePath(tuple(_curves(stops)), tip, label)


def _lines(count: int, chains: Sequence[Sequence[int]]) -> dict[Pair, int]:
    """The lines of directly connected boxes in adjacent layers: (producer, consumer) → number of boxes in its line.

    A line continues from a box to the consumer with the longest path below, if the box is its deepest producer.
    """
    pairs = [(chain[0], chain[-1]) for chain in chains]
    producers, consumers = _neighbours(count, pairs)
    order = _in_order(count, pairs)
    above, below = [0] * count, [0] * count
    for box in order:
        above[box] = max((above[producer] + 1 for producer in producers[box]), default=0)
    for box in reversed(order):
        below[box] = max((below[consumer] + 1 for consumer in consumers[box]), default=0)
    after = {}
    for box in order:
        consumer = max(consumers[box], key=below.__getitem__, default=None)
        if consumer is not None and max(producers[consumer], key=above.__getitem__) == box:
            after[box] = consumer
    lines: dict[Pair, int] = {}
    for first in set(order) - set(after.values()):
        line = [first]
        while line[-1] in after:
            line.append(after[line[-1]])
        lines.update(dict.fromkeys(itertools.pairwise(line), len(line)))
    return lines


# Curves.


def _curves(stops: Sequence[Point]) -> list[Point]:
    """A start and Bézier curves through the stops, vertical at each of them; straight pieces are joined."""
    kept: list[Point] = []
    for stop in stops:
        if kept and stop == kept[-1]:
            continue
        if len(kept) > 1 and kept[-2][0] == kept[-1][0] == stop[0]:
            kept.pop()
        kept.append(stop)
    points = [kept[0]]
    for (x, y), (to_x, to_y) in itertools.pairwise(kept):
        half = (y + to_y) / 2
        points += [(x, half), (to_x, half), (to_x, to_y)]
    return points


def _moved(path: EdgePath, right: float, down: float) -> EdgePath:
    def move(point: Point) -> Point:
        return point[0] + right, point[1] + down

    return EdgePath(tuple(map(move, path.points)), move(path.tip), path.label and move(path.label))


# The graph.


def _neighbours(count: int, edges: Iterable[Pair]) -> tuple[list[list[int]], list[list[int]]]:
    """The producers and the consumers of each box."""
    producers: list[list[int]] = [[] for _ in range(count)]
    consumers: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        producers[target].append(source)
        consumers[source].append(target)
    return producers, consumers


def _in_order(count: int, edges: Sequence[Pair]) -> list[int]:
    """The boxes, each after its producers."""
    producers, consumers = _neighbours(count, edges)
    waits = [len(each) for each in producers]
    order = [box for box in range(count) if not waits[box]]
    for box in order:  # grows during the loop
        for consumer in consumers[box]:
            waits[consumer] -= 1
            if not waits[consumer]:
                order.append(consumer)
    return order


def _connected(count: int, edges: Sequence[Pair]) -> list[tuple[list[int], list[int]]]:
    """The connected parts: the boxes and the edges of each."""
    part = list(range(count))

    def root(box: int) -> int:
        while part[box] != box:
            part[box] = part[part[box]]
            box = part[box]
        return box

    for source, target in edges:
        one, other = sorted((root(source), root(target)))
        part[other] = one
    found: dict[int, tuple[list[int], list[int]]] = collections.defaultdict(lambda: ([], []))
    for box in range(count):
        found[root(box)][0].append(box)
    for index, (source, _) in enumerate(edges):
        found[root(source)][1].append(index)
    return list(found.values())


def _rows(parts: Sequence[_Part]) -> list[Point]:
    """The upper left corners of the parts, packed in rows."""
    area = sum((part.width + BETWEEN_PARTS) * (part.height + BETWEEN_PARTS) for part in parts)
    widest = max([math.sqrt(area * ASPECT), *(part.width for part in parts)])
    corners, left, top, bottom = [], 0.0, 0.0, 0.0
    for part in parts:
        if left and left + part.width > widest:
            left, top = 0.0, bottom + BETWEEN_PARTS
        corners.append((left, top))
        left += part.width + BETWEEN_PARTS
        bottom = max(bottom, top + part.height)
    return corners


def _median(places: list[tuple[float, float]]) -> float:
    """The weighted median, or the midpoint of two medians; sorts the places."""
    if len(places) == 1:
        return places[0][0]
    places.sort()
    half, below = sum(weight for _, weight in places) / 2, 0.0
    for index, (place, weight) in enumerate(places):
        below += weight
        if below > half:
            return place
        if below == half:
            return (place + places[index + 1][0]) / 2
    raise AssertionError("weights are positive")
