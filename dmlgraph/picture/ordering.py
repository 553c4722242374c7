"""Ordering: the cells of each layer from left to right, so that few edges cross.

Cells are numbers; `above` and `below` have the neighbours of each, with weights, which do not matter here.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence

Pair = tuple[int, int]  # producer, consumer

ORDERINGS = 12  # the most rounds of ordering
WITHOUT_GAIN = 3  # ordering ends after this many rounds without fewer crossings
EXCHANGES = 4  # the most rounds of exchanging neighbours


def ordered(layer: Sequence[int], above: Sequence[Sequence[Pair]], below: Sequence[Sequence[Pair]]) -> list[list[int]]:
    """The cells of each layer from left to right, ordered so that few edges cross."""
    rows = _first_order(layer, above, below)
    position = [0] * len(layer)
    _number(rows, position)
    best, fewest, without_gain = [list(row) for row in rows], _crossings(rows, position, below), 0
    for _ in range(ORDERINGS):
        if not fewest or without_gain == WITHOUT_GAIN:
            break
        for index in range(1, len(rows)):
            _sort_by_neighbours(rows[index], position, above)
        for index in range(len(rows) - 2, -1, -1):
            _sort_by_neighbours(rows[index], position, below)
        crossings = _crossings(rows, position, below)
        without_gain += 1
        if crossings < fewest:
            best, fewest, without_gain = [list(row) for row in rows], crossings, 0
    _number(best, position)
    for _ in range(EXCHANGES if fewest else 0):
        if not sum(_exchange(row, position, above, below) for row in best):
            break
    return best


def _first_order(
    layer: Sequence[int], above: Sequence[Sequence[Pair]], below: Sequence[Sequence[Pair]]
) -> list[list[int]]:
    """The cells in the order of a depth-first walk along the edges, which keeps connected cells together."""
    rows: list[list[int]] = [[] for _ in range(max(layer) + 1)]
    seen = [False] * len(layer)
    for root in range(len(layer)):
        waiting = [] if seen[root] else [root]
        while waiting:
            cell = waiting.pop()
            if seen[cell]:
                continue
            seen[cell] = True
            rows[layer[cell]].append(cell)
            waiting.extend(other for other, _ in reversed(below[cell]) if not seen[other])
            waiting.extend(other for other, _ in reversed(above[cell]) if not seen[other])
    return rows


def _number(rows: Iterable[Sequence[int]], position: list[int]) -> None:
    for row in rows:
        for place, cell in enumerate(row):
            position[cell] = place


def _sort_by_neighbours(row: list[int], position: list[int], neighbours: Sequence[Sequence[Pair]]) -> None:
    """Sorts the cells of a layer by the mean position of their neighbours; a cell without neighbours keeps its
    position."""
    means = {
        cell: sum(position[other] for other, _ in neighbours[cell]) / len(neighbours[cell])
        for cell in row
        if neighbours[cell]
    }
    moved = iter(sorted(means, key=means.__getitem__))  # stable: the row's order for equal means
    row[:] = [next(moved) if cell in means else cell for cell in row]
    _number([row], position)


def _crossings(rows: Sequence[Sequence[int]], position: Sequence[int], below: Sequence[Sequence[Pair]]) -> int:
    """The number of pairs of segments that cross."""
    total = 0
    for row in rows:
        seen: list[int] = []
        for cell in row:
            ends = sorted(position[other] for other, _ in below[cell])
            total += sum(len(seen) - bisect.bisect_right(seen, end) for end in ends)
            for end in ends:
                bisect.insort(seen, end)
    return total


def _exchange(
    row: list[int], position: list[int], above: Sequence[Sequence[Pair]], below: Sequence[Sequence[Pair]]
) -> int:
    """Exchanges neighbours of a layer where that gives fewer crossings; returns the number of crossings saved."""
    saved = 0
    for place in range(len(row) - 1):
        left, right = row[place], row[place + 1]
        gain = sum(
            _inversions(neighbours[left], neighbours[right], position)
            - _inversions(neighbours[right], neighbours[left], position)
            for neighbours in (above, below)
        )
        if gain > 0:
            row[place], row[place + 1] = right, left
            position[left], position[right] = place + 1, place
            saved += gain
    return saved


def _inversions(left: Sequence[Pair], right: Sequence[Pair], position: Sequence[int]) -> int:
    """The number of crossings between segments of the left and the right cell."""
    ends = sorted(position[other] for other, _ in right)
    return sum(bisect.bisect_left(ends, position[other]) for other, _ in left)
