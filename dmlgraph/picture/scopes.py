"""Scopes in pictures: the boxes whose names begin alike, up to a `/`, as one box with a drawing inside."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import operator
from collections.abc import Iterator, Sequence

import networkx as nx

from dmlgraph.graph.scopes import SEPARATOR
from dmlgraph.picture.drawing import Box, Drawing, Edge, reference
from dmlgraph.picture.merging import counted, joined
from dmlgraph.picture.shapes import Kind
from dmlgraph.picture.texts import cut

MOST_LEVELS = 20  # of scopes in one another that are drawn


@dataclasses.dataclass
class Scope:
    """A scope of a drawing.

    Attributes:
        name: with a `/` at its end; empty: the whole drawing.
        boxes: the indexes of its own boxes.
        inner: the scopes in it.
    """

    name: str
    boxes: list[int] = dataclasses.field(default_factory=list)
    inner: dict[str, Scope] = dataclasses.field(default_factory=dict)

    def all_boxes(self) -> Iterator[int]:
        yield from self.boxes
        for scope in self.inner.values():
            yield from scope.all_boxes()


def scopes(drawing: Drawing) -> Scope:
    """The scopes of a drawing; a scope has at least two boxes, and is not the only thing in another.

    Outputs are in no scope: they are what leaves the graph.  The next value of a state is in the state's scope.  A
    weight whose name has no scope is in that of its readers.
    """
    root = Scope("")
    leaves = [box.kind is Kind.OUTPUT and not box.mark for box in drawing.boxes]
    paths = [
        [] if out else box.name.split(SEPARATOR)[:-1][:MOST_LEVELS]
        for box, out in zip(drawing.boxes, leaves, strict=True)
    ]
    readers: dict[int, list[str]] = {}  # of a weight: where all that read it are
    for edge in drawing.edges:
        if drawing.boxes[edge.source].is_weight and not paths[edge.source]:
            path = paths[edge.target]
            readers[edge.source] = _common(readers.get(edge.source, path), path)
    for index in range(len(drawing.boxes)):
        scope = root
        for part in readers.get(index, paths[index]):
            name = f"{scope.name}{part}{SEPARATOR}"
            scope = scope.inner.setdefault(name, Scope(name))
        scope.boxes.append(index)
    _simplify(root)
    return root


def _common(first: list[str], second: list[str]) -> list[str]:
    """The parts with which both begin."""
    pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))
    return [part for part, _ in pairs]


def _simplify(scope: Scope) -> None:
    """Takes out scopes of one box, and puts a scope that is all of another in its place."""
    for name, inner in list(scope.inner.items()):
        _simplify(inner)
        if not inner.inner and len(inner.boxes) == 1:
            scope.boxes += inner.boxes
            del scope.inner[name]
        elif not inner.boxes and len(inner.inner) == 1:
            del scope.inner[name]
            scope.inner |= inner.inner
    scope.boxes.sort()


def in_scopes(drawing: Drawing) -> Drawing:
    """The drawing with each scope as one box, whose group is the drawing inside; itself if it has no scopes.

    What a box reads from outside its scope is drawn as a reference in it.
    """
    root = scopes(drawing)
    return _inside(drawing, root, drawing.edges, drawing.title) if root.inner else drawing


def _inside(drawing: Drawing, scope: Scope, edges: Sequence[Edge], title: str) -> Drawing:
    """The drawing of a scope; `edges` are those that end in it."""
    inner = list(scope.inner.values())
    order: list[tuple[int, Scope | None]] = [(index, None) for index in scope.boxes]
    order += [(min(each.all_boxes()), each) for each in inner]
    boxes: list[Box] = []
    groups: dict[int, Drawing] = {}
    place: dict[int, int] = {}  # of each box of the drawing, however deep
    own: list[tuple[int, Scope]] = []
    for index, each in sorted(order, key=operator.itemgetter(0)):
        if each is None:
            box = drawing.boxes[index]
            short = cut(box.mark + box.name.removeprefix(scope.name))
            lines = (short, *box.lines[1:]) if scope.name else box.lines
            if index in drawing.groups:
                groups[len(boxes)] = drawing.groups[index]
            place[index] = len(boxes)
            boxes.append(dataclasses.replace(box, lines=lines))
        else:
            place |= dict.fromkeys(each.all_boxes(), len(boxes))
            own.append((len(boxes), each))
            boxes.append(_box(drawing, each, scope.name))
    within: dict[int, list[Edge]] = collections.defaultdict(list)
    among: dict[tuple[int, int], list[Edge]] = collections.defaultdict(list)
    stubs: dict[int, int] = {}
    for edge in edges:
        target = place[edge.target]
        within[target].append(edge)
        if edge.source not in place:
            source = drawing.boxes[edge.source]
            if edge.source not in stubs:
                stubs[edge.source] = len(boxes)
                boxes.append(reference(source))
            among[stubs[edge.source], target].append(edge)
        elif place[edge.source] != target:
            among[place[edge.source], target].append(edge)
    for index, each in own:
        name = each.name.rstrip(SEPARATOR)
        groups[index] = _inside(drawing, each, within[index], name)
    merged: list[Edge] = []
    for (start, end), group in among.items():
        if start in groups or end in groups:
            merged.append(joined(start, end, group))
        else:
            merged += (dataclasses.replace(edge, source=start, target=end) for edge in group)
    made = _without_cycles(boxes, merged)
    return Drawing(title, tuple(boxes), tuple(made), groups, () if scope.name else drawing.notes)


def _without_cycles(boxes: list[Box], edges: Sequence[Edge]) -> list[Edge]:
    """The edges, those that lead back between scopes from references; these are added to the boxes.

    Nodes form no cycles, but scopes may: a scope can read what another makes of its results.
    """
    network: nx.DiGraph[int] = nx.DiGraph()
    network.add_edges_from((edge.source, edge.target) for edge in edges)
    cycle = {
        box: number
        for number, group in enumerate(nx.strongly_connected_components(network))
        for box in group
        if len(group) > 1
    }
    made = []
    for each in edges:
        source = each.source
        if source > each.target and source in cycle and cycle[source] == cycle.get(each.target):
            boxes.append(reference(boxes[source]))
            source = len(boxes) - 1
        made.append(dataclasses.replace(each, source=source))
    return made


def _box(drawing: Drawing, scope: Scope, around: str) -> Box:
    inside = [box for box in map(drawing.boxes.__getitem__, scope.all_boxes()) if not box.mark]
    name = scope.name.rstrip(SEPARATOR)
    lines = (cut(name.removeprefix(around)), f"{len(inside):,} nodes", *counted(inside))
    rows = (("scope", name), ("nodes", f"{len(inside):,}"), ("operators", ", ".join(counted(inside, most=None))))
    return Box(name, Kind.FOLDED, lines, rows)


def box_count(drawing: Drawing) -> int:
    """The number of boxes in a drawing and in its groups."""
    return len(drawing.boxes) + sum(map(box_count, drawing.groups.values()))
