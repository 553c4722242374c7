"""Layers: boxes are below their producers, no edge crosses a box, unconnected parts are beside each other."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmlgraph.picture import layers as module
from dmlgraph.picture.layers import Arrangement, Label, Point, Size, layers, spread
from dmlgraph.picture.ordering import Pair


def arrange(sizes: Sequence[Size], edges: Sequence[Pair]) -> Arrangement:
    """Without labels."""
    return module.arrange(sizes, edges, [Label("", (0.0, 0.0))] * len(edges), is_roomy=False)


@st.composite
def drawings(draw: st.DrawFn) -> tuple[list[Size], list[Pair]]:
    """Boxes of any size and edges without cycles: chains, branches, several parts, the same edge twice."""
    count = draw(st.integers(1, 24))
    sizes = draw(st.lists(st.tuples(st.integers(60, 300), st.integers(20, 90)), min_size=count, max_size=count))
    pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(lambda pair: pair[0] < pair[1])
    edges = draw(st.lists(pairs, max_size=40)) if count > 1 else []
    return [(float(width), float(height)) for width, height in sizes], edges


def along(points: Sequence[Point]) -> Iterator[Point]:
    """Points of a chain of Bézier curves."""
    for start in range(0, len(points) - 1, 3):
        for t in (step / 16 for step in range(17)):
            weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
            corners = points[start : start + 4]
            x, y = (
                sum(weight * corner[axis] for weight, corner in zip(weights, corners, strict=True)) for axis in (0, 1)
            )
            yield x, y


def check(found: Arrangement, sizes: Sequence[Size], edges: Sequence[Pair]) -> None:
    for (x, y), (width, height) in zip(found.centres, sizes, strict=True):
        assert -1e-6 <= x - width / 2 <= x + width / 2 <= found.width + 1e-6
        assert -1e-6 <= y - height / 2 <= y + height / 2 <= found.height + 1e-6
    for one, other in itertools.combinations(range(len(sizes)), 2):
        (x, y), (to_x, to_y) = found.centres[one], found.centres[other]
        across, down = (sizes[one][axis] + sizes[other][axis] for axis in (0, 1))
        assert abs(x - to_x) >= across / 2 - 1e-6 or abs(y - to_y) >= down / 2 - 1e-6
    for (source, target), path in zip(edges, found.paths, strict=True):
        assert found.centres[source][1] + sizes[source][1] / 2 <= path.points[0][1] + 1e-6
        assert path.tip[1] == pytest.approx(found.centres[target][1] - sizes[target][1] / 2)
        assert path.points[-1][0] == pytest.approx(path.tip[0])
        for x, y in along(path.points):
            for (middle, centre), (width, height) in zip(found.centres, sizes, strict=True):
                assert abs(x - middle) >= width / 2 - 1e-6 or abs(y - centre) >= height / 2 - 1e-6


@given(drawings())
def test_nothing_overlaps_and_no_edge_runs_across_a_box(drawing: tuple[list[Size], list[Pair]]) -> None:
    sizes, edges = drawing
    check(arrange(sizes, edges), sizes, edges)


@given(drawings(), st.integers(20, 200))
def test_labels_have_room_of_their_own(drawing: tuple[list[Size], list[Pair]], width: int) -> None:
    sizes, edges = drawing
    found = module.arrange(sizes, edges, [Label("label", (float(width), 13.0))] * len(edges), is_roomy=True)
    check(found, sizes, edges)
    labels = [path.label for path in found.paths]
    rooms = [(label, (float(width), 13.0)) for label in labels if label is not None]
    assert len(rooms) == len(edges)
    boxes = list(zip(found.centres, sizes, strict=True))
    for (one, its), (other, others) in [*itertools.combinations(rooms, 2), *itertools.product(rooms, boxes)]:
        across, down = (its[axis] + others[axis] for axis in (0, 1))
        assert abs(one[0] - other[0]) >= across / 2 - 1e-6 or abs(one[1] - other[1]) >= down / 2 - 1e-6


@given(drawings())
def test_a_consumer_stands_below_its_producers(drawing: tuple[list[Size], list[Pair]]) -> None:
    sizes, edges = drawing
    layer = layers(len(sizes), edges)
    assert all(layer[source] < layer[target] for source, target in edges)


def test_a_source_stands_right_above_its_first_consumer() -> None:
    assert layers(4, [(0, 1), (1, 2), (3, 2)]) == [0, 1, 2, 1]


@pytest.mark.parametrize("count", [2, 30, 300])
def test_the_main_line_is_straight_whatever_stands_beside_it(count: int) -> None:
    """A chain of wide and narrow boxes, each of which reads a source, and every fourth the one four before it."""
    chain = list(range(count))
    sources = [count + index for index in range(count - 1)]
    edges = [
        *itertools.pairwise(chain),
        *zip(sources, chain[1:], strict=True),
        *zip(chain[::4], chain[4::4], strict=False),
    ]
    sizes = [(60.0 + 90 * (index % 3), 30.0) for index in range(2 * count - 1)]
    found = arrange(sizes, edges)
    assert len({round(found.centres[box][0], 6) for box in chain}) == 1
    assert found.width < 1500


def test_crossings_are_undone() -> None:
    """Two rows that are mirror images of each other, joined in pairs."""
    edges = [(index, 19 - index) for index in range(10)]
    found = arrange([(60.0, 30.0)] * 20, [*edges, *((index, index + 1) for index in range(10, 19))])
    order = sorted(range(10), key=lambda box: found.centres[box][0])
    assert order in (list(range(10)), list(range(9, -1, -1)))


def test_parts_that_are_not_connected_are_packed_in_rows() -> None:
    sizes = [(100.0, 40.0)] * 400
    found = arrange(sizes, [])
    check(found, sizes, [])
    assert found.width < 5000
    assert 0.5 < found.width / found.height < 4


@given(st.lists(st.tuples(st.integers(-50, 50), st.integers(1, 9), st.integers(0, 20)), min_size=1, max_size=8))
def test_spread_is_as_near_as_the_gaps_allow(given: list[tuple[int, int, int]]) -> None:
    """Compared with all ways to cut the row into pools, each at a position that one of its members wants."""
    wanted, weights = [float(each[0]) for each in given], [float(each[1]) for each in given]
    gaps = [float(each[2]) for each in given[1:]]
    places = spread(wanted, weights, gaps)
    assert all(after - before >= gap - 1e-9 for before, after, gap in zip(places, places[1:], gaps, strict=False))
    offsets = [0.0, *itertools.accumulate(gaps)]
    targets = [place - offset for place, offset in zip(wanted, offsets, strict=True)]

    def cost(middles: Sequence[float]) -> float:
        return sum(w * abs(m - t) for w, m, t in zip(weights, middles, targets, strict=True))

    best = dict.fromkeys(sorted(set(targets)), 0.0)  # the least cost so far if the last box is there or further left
    for weight, target in zip(weights, targets, strict=True):
        least = float("inf")
        for place, so_far in list(best.items()):
            least = min(least, so_far)
            best[place] = least + weight * abs(place - target)
    found = cost([place - offset for place, offset in zip(places, offsets, strict=True)])
    assert found == pytest.approx(min(best.values()))


def test_the_same_graph_has_the_same_arrangement() -> None:
    sizes, edges = (
        [(80.0, 30.0)] * 30,
        [(index, index * 2 % 29 + 1) for index in range(14) if index < index * 2 % 29 + 1],
    )
    assert arrange(sizes, edges) == arrange(sizes, edges)
