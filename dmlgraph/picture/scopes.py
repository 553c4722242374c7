"""Scopes in pictures: the boxes whose names begin alike, up to a `/`, as one box with a drawing inside.

Neighbouring scopes of a large drawing that have the same in them are one box, which says how many they are.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import operator
import re
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence

import networkx as nx

from dmlgraph.graph.scopes import SEPARATOR
from dmlgraph.picture.drawing import Box, Drawing, Edge, reference
from dmlgraph.picture.guesses import LEAST_COPIES, Path, code, common, guessed
from dmlgraph.picture.laying import marked
from dmlgraph.picture.merging import counted, joined
from dmlgraph.picture.shapes import Kind
from dmlgraph.picture.texts import cut

MOST_BOXES = 150  # a drawing with more is large: its scopes are closed, and guessed if it has none
DIGITS = "0123456789"
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

    @property
    def title(self) -> str:
        return self.name.rstrip(SEPARATOR)

    def all_boxes(self) -> Iterator[int]:
        yield from self.boxes
        for scope in self.inner.values():
            yield from scope.all_boxes()


def scopes(drawing: Drawing) -> Scope:
    """The scopes of a drawing; a scope has at least two boxes, and is not the only thing in another.

    The scopes of a large drawing without any are guessed.  Outputs are in no scope: they are what leaves the graph.
    The next value of a state is in the state's scope.  A weight or a fill whose name has no scope is in that of its
    readers.
    """
    named = _tree(drawing, [_named(box) for box in drawing.boxes])
    return named if named.inner or len(drawing.boxes) <= MOST_BOXES else _tree(drawing, guessed(drawing))


def _named(box: Box) -> Path:
    """The scopes in a name; outputs are in none."""
    return [] if box.kind is Kind.OUTPUT and not box.mark else box.name.split(SEPARATOR)[:-1][:MOST_LEVELS]


def _tree(drawing: Drawing, paths: Sequence[Path]) -> Scope:
    """The scopes from the path of each box."""
    root = Scope("")
    readers: dict[int, Path] = {}  # of a weight or a fill: where all that read it are
    for edge in drawing.edges:
        source = drawing.boxes[edge.source]
        if (source.holds or source.kind is Kind.FILL) and not paths[edge.source]:
            path = paths[edge.target]
            readers[edge.source] = common(readers.get(edge.source, path), path)
    for index in range(len(drawing.boxes)):
        scope = root
        for part in readers.get(index, paths[index]):
            name = f"{scope.name}{part}{SEPARATOR}"
            scope = scope.inner.setdefault(name, Scope(name))
        scope.boxes.append(index)
    _simplify(root)
    return root


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


def in_scopes(drawing: Drawing, paths: Sequence[Path] | None = None) -> Drawing:
    """The drawing with each scope as one box, whose group is the drawing inside; itself if it has no scopes.

    What a box reads from outside its scope is drawn as a reference in it.  `paths`: the scopes around each box, from
    the outermost on, if they are not those of `scopes`.
    """
    root = scopes(drawing) if paths is None else _tree(drawing, paths)
    return _inside(drawing, root, drawing.edges, drawing.title) if root.inner else drawing


def _inside(drawing: Drawing, scope: Scope, edges: Sequence[Edge], title: str) -> Drawing:
    """The drawing of a scope; `edges` are those that end in it."""
    order: list[tuple[int, Sequence[Scope]]] = [(index, ()) for index in scope.boxes]
    order += [(min(each[0].all_boxes()), each) for each in _copies(drawing, scope)]
    boxes: list[Box] = []
    groups: dict[int, Drawing] = {}
    place: dict[int, int] = {}  # of each box of the drawing, however deep
    inner: dict[int, Scope] = {}  # its scope in this one
    own: list[tuple[int, Sequence[Scope]]] = []
    for index, each in sorted(order, key=operator.itemgetter(0)):
        if not each:
            box = drawing.boxes[index]
            short = cut(box.mark + inner_name(box.name, scope.name))
            lines = (short, *box.lines[1:]) if scope.name else box.lines
            if index in drawing.groups:
                groups[len(boxes)] = drawing.groups[index]
            place[index] = len(boxes)
            boxes.append(dataclasses.replace(box, lines=lines))
            continue
        box, parts = _box(drawing, each, scope.name)
        for part in parts:
            members = list(part.all_boxes())
            place |= dict.fromkeys(members, len(boxes))
            inner |= dict.fromkeys(members, part)
        own.append((len(boxes), parts))
        boxes.append(box)
    within: dict[str, list[Edge]] = collections.defaultdict(list)
    among: dict[tuple[int, int], list[Edge]] = collections.defaultdict(list)
    stubs: dict[int, int] = {}
    for edge in edges:
        target = place[edge.target]
        if edge.target in inner:
            within[inner[edge.target].name].append(edge)
        if edge.source not in place:
            source = drawing.boxes[edge.source]
            if edge.source not in stubs:
                stubs[edge.source] = len(boxes)
                boxes.append(reference(source))
            among[stubs[edge.source], target].append(edge)
        elif place[edge.source] != target:
            among[place[edge.source], target].append(edge)
    copies: dict[int, tuple[Drawing, ...]] = {}
    for index, parts in own:
        groups[index], *more = (_inside(drawing, part, within[part.name], part.title) for part in parts)
        if more:
            copies[index] = tuple(more)
    made = _without_cycles(boxes, list(_merged(among, groups)))
    return Drawing(
        title, tuple(boxes), tuple(made), groups, () if scope.name else drawing.notes, copies, drawing.overlay
    )


def _merged(among: Mapping[tuple[int, int], Sequence[Edge]], groups: Collection[int]) -> Iterator[Edge]:
    """The edges among boxes: those from or to a group are one."""
    for (start, end), group in among.items():
        if start in groups or end in groups:
            yield joined(start, end, group)
        else:
            yield from (dataclasses.replace(edge, source=start, target=end) for edge in group)


def inner_name(name: str, scope: str) -> str:
    """A node's name inside a scope: without the scope's parts, whatever stands between them in the name."""
    parts = map(re.escape, scope.split(SEPARATOR)[:-1])
    begin = re.match("[/._]?".join(parts) + "[/._]", name) if scope else None
    return name[begin.end() :] if begin else name


# Copies.


def _copies(drawing: Drawing, scope: Scope) -> list[list[Scope]]:
    """The scopes in a scope; numbered ones one after another that are alike are together, in a large drawing."""
    inner = sorted(scope.inner.values(), key=lambda each: min(each.all_boxes()))
    if len(drawing.boxes) <= MOST_BOXES:
        return [[each] for each in inner]
    found: list[list[Scope]] = []
    for (stem, _), group in itertools.groupby(inner, lambda each: (each.title.rstrip(DIGITS), _code(drawing, each))):
        alike = list(group)
        is_run = len(alike) >= LEAST_COPIES and all(each.title != stem for each in alike)
        found += [alike] if is_run else [[each] for each in alike]
    return found


def _code(drawing: Drawing, scope: Scope) -> Hashable:
    """What is alike in copies of a scope."""
    own = tuple(code(drawing.boxes[index]) for index in scope.boxes)
    return own, tuple(_code(drawing, each) for each in scope.inner.values())


def _box(drawing: Drawing, scopes: Sequence[Scope], around: str) -> tuple[Box, Sequence[Scope]]:
    """The box of a scope or of its copies, and what it shows inside: if that is all, the copies in a scope."""
    name = scopes[0].title if len(scopes) == 1 else f"{scopes[0].title} … {scopes[-1].title}"
    short = scopes[0].title.removeprefix(around)
    if len(scopes) > 1:
        short += f" … {scopes[-1].title.removeprefix(around)}"
    elif not scopes[0].boxes and len(inner := _copies(drawing, scopes[0])) == 1:
        scopes = inner[0]
    members = [[box for box in map(drawing.boxes.__getitem__, each.all_boxes()) if not box.mark] for each in scopes]
    inside = list(itertools.chain.from_iterable(members))
    times = [f"× {len(scopes)}, each:"] if len(scopes) > 1 else []
    lines = (cut(short), *times, f"{len(members[0]):,} nodes", *counted(members[0]))
    rows = [("scope", name), ("nodes", f"{len(inside):,}"), ("operators", ", ".join(counted(inside, most=None)))]
    if len(scopes) > 1:
        rows.insert(1, ("copies", f"{len(scopes)}: {scopes[0].title} … {scopes[-1].title}"))
    heading = f"{short} × {len(scopes)}: {scopes[0].title}" if len(scopes) > 1 else short
    box = Box(name, Kind.FOLDED, lines, tuple(rows), heading=cut(heading))
    if drawing.overlay is not None:
        said = [each.said for each in inside if each.said is not None]
        box = marked(box, drawing.overlay, drawing.overlay.joined(said) if said else None)
    return box, scopes


# Cycles.


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


def box_count(drawing: Drawing) -> int:
    """The number of boxes in a drawing and in its groups; copies count once."""
    return len(drawing.boxes) + sum(map(box_count, drawing.groups.values()))
