"""Topological order of declarations, and the cycles among them."""

from __future__ import annotations

import collections
import dataclasses
import heapq
from collections.abc import Collection, Mapping

import networkx as nx


@dataclasses.dataclass(frozen=True, slots=True)
class Cycle:
    """Names that read one another; `path` leads from the first of them along readers back to it."""

    names: frozenset[str]
    path: list[str]


def in_order(sources: Mapping[str, Collection[str]]) -> tuple[list[str], list[Cycle]]:
    """Puts each name after the names it reads, and otherwise keeps their order.

    Args:
        sources: name → the names it reads, all of them keys.

    Returns:
        The names that are not on a cycle, in order, and the cycles.
    """
    position = {name: index for index, name in enumerate(sources)}
    readers = collections.defaultdict(list)
    waits_for = {}
    for name, read in sources.items():
        once = set(read)
        waits_for[name] = len(once)
        for source in once:
            readers[source].append(name)
    order = _ready(position, readers, waits_for)
    if len(order) == len(position):
        return order, []
    left = {name for name, count in waits_for.items() if count}
    among = {name: [each for each in readers[name] if each in left] for name in left}
    network: nx.DiGraph[str] = nx.DiGraph()
    network.add_edges_from((name, reader) for name, following in among.items() for reader in following)
    groups = [group for group in nx.strongly_connected_components(network) if _is_cycle(group, among)]
    for name in (name for group in groups for name in group):
        waits_for[name] = -1
        for reader in readers[name]:
            waits_for[reader] -= 1
    firsts = sorted((min(map(position.__getitem__, group)), frozenset(group)) for group in groups)
    names = list(sources)
    cycles = [Cycle(group, _path_round(names[first], among, group)) for first, group in firsts]
    order += _ready({name: position[name] for name in left}, readers, waits_for)
    return order, cycles


def _ready(position: Mapping[str, int], readers: Mapping[str, list[str]], waits_for: dict[str, int]) -> list[str]:
    """The names that wait for nothing, or only for other such names, in order; the first declared comes first."""
    heap = [(index, name) for name, index in position.items() if waits_for[name] == 0]
    heapq.heapify(heap)
    order = []
    while heap:
        _, name = heapq.heappop(heap)
        order.append(name)
        for reader in readers.get(name, ()):
            waits_for[reader] -= 1
            if waits_for[reader] == 0:
                heapq.heappush(heap, (position[reader], reader))
    return order


def _is_cycle(group: Collection[str], readers: Mapping[str, list[str]]) -> bool:
    first = next(iter(group))
    return len(group) > 1 or first in readers[first]


def _path_round(first: str, readers: Mapping[str, list[str]], group: Collection[str]) -> list[str]:
    """The shortest path from a name of a cycle along readers back to it."""
    come_from: dict[str, str] = {}
    waiting = collections.deque([first])
    while first not in come_from:
        name = waiting.popleft()
        for reader in readers[name]:
            if reader in group and reader not in come_from:
                come_from[reader] = name
                waiting.append(reader)
    path = [first]
    while len(path) == 1 or path[-1] != first:
        path.append(come_from[path[-1]])
    return path[::-1]
