"""Drawing: the content of a picture of a graph, without positions; every format is made from it.

Boxes stand for the graph's nodes and outputs, edges for the tensors between them.  Each carries rows of (label, text)
with all of its details.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.scalar import Scalar
from dmlgraph.graph.graph import Graph
from dmlgraph.graph.nodes import ConstantNode, InputNode, Node, OperatorNode, StateNode, is_view
from dmlgraph.operators.declaration.fields import Role
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.fill import FillValueConstant, FillValueSequence
from dmlgraph.picture.families import Family, family_of
from dmlgraph.picture.overlay import Mark, Overlay
from dmlgraph.picture.shapes import Kind
from dmlgraph.picture.texts import cut, field_lines, short, tensor_rows, text, values, whole

if TYPE_CHECKING:
    from dmlgraph.compiler.ir import IrGraph

LISTED = 3  # origins listed in a fused node's box; more are counted
FROM = "↳ "  # before the name of a node from which a box was fused
LOOP = "↻ "  # before the name of a state, where it gets its next value
OUTPUT = "output"

Rows = tuple[tuple[str, str], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Box:
    """A node or an output of the graph.

    Attributes:
        name: the node's, or the output's.
        kind: what it represents.
        lines: its text; the first line is the title.
        rows: all of its details.
        origins: for a fused node, the names of the nodes it was fused from.
        holds: of a constant or an owned input, and of a view of one: its data type and sizes.
        mark: what stands before the name in the title.
        family: of an operator, what it does.
        weights: what it reads and shows as lines of its own: see dmlgraph.picture.weights.
        heading: of a scope, what stands above what is in it.
        laid: under an overlay, the name of its colours.
        said: what the overlay says of it.
    """

    name: str
    kind: Kind
    lines: tuple[str, ...]
    rows: Rows
    origins: tuple[str, ...] = ()
    holds: str = ""
    mark: str = ""
    family: Family | None = None
    weights: tuple[Weight, ...] = ()
    heading: str = ""
    laid: str = ""
    said: Mark | None = None

    @property
    def look(self) -> str:
        """The name of its colours: an overlay's, else of an operator its family's."""
        return self.laid or str(self.family if self.kind is Kind.OPERATOR and self.family else self.kind)

    @property
    def texts(self) -> tuple[str, ...]:
        """All its lines: `lines`, then the weights'."""
        return (*self.lines, *(weight.line for weight in self.weights))


@dataclasses.dataclass(frozen=True, slots=True)
class Weight:
    """A constant or an owned input as a line in the box that reads it, and the box that it would be."""

    line: str
    box: Box


@dataclasses.dataclass(frozen=True, slots=True)
class Edge:
    """A tensor between two boxes, given by index.

    Attributes:
        label: its data type and sizes.
        rows: all of its details.
        field: of the consumer, which reads it there.
    """

    source: int
    target: int
    label: str
    rows: Rows
    field: str = ""


@dataclasses.dataclass(frozen=True)
class Drawing:
    """The content of one picture.

    Attributes:
        title: the heading.
        boxes: in execution order.
        edges: ordered by consumer.
        groups: index of a fused box → the drawing of the nodes it was fused from.
        notes: what was done to the graph, one sentence each.
        copies: index of a box for several scopes that are alike → the drawings of all but the first, which is its
            group.
        overlay: what is laid over it.
    """

    title: str
    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]
    groups: Mapping[int, Drawing] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()
    copies: Mapping[int, tuple[Drawing, ...]] = dataclasses.field(default_factory=dict)
    overlay: Overlay | None = None

    def part(self, names: Iterable[str]) -> Drawing:
        """Only the nodes of these names, and the edges between them."""
        wanted = set(names)
        kept = [index for index, box in enumerate(self.boxes) if box.kind is not Kind.OUTPUT and box.name in wanted]
        place = {index: each for each, index in enumerate(kept)}
        edges = (
            dataclasses.replace(edge, source=place[edge.source], target=place[edge.target])
            for edge in self.edges
            if edge.source in place and edge.target in place
        )
        return Drawing(self.title, tuple(self.boxes[index] for index in kept), tuple(edges))


def draw(
    graph: Graph | IrGraph,
    *,
    title: str | None = None,
    origins: Mapping[str, Sequence[str]] | None = None,
    source: Drawing | None = None,
    notes: Sequence[str] = (),
) -> Drawing:
    """The drawing of a graph.

    Args:
        graph: any.
        title: the heading; by default the graph's name.
        origins: of a fused graph: node name → names of the nodes it was fused from.
        source: of a fused graph: the drawing of the source graph.
        notes: what was done to the graph.
    """
    came_from = {name: tuple(nodes) for name, nodes in (origins or {}).items() if tuple(nodes) not in ((), (name,))}
    nodes = list(graph.nodes)
    states = () if isinstance(graph, Graph) else graph.states
    held = {name for state in states for name in (state.input, state.length)}
    index = {node.name: place for place, node in enumerate(nodes)}
    boxes: list[Box] = []
    weights: set[str] = set()
    for node in nodes:
        if _is_weight(graph, node, weights):
            weights.add(node.name)
        is_weight, is_state = node.name in weights, node.name in held
        boxes.append(_box(graph, node, came_from.get(node.name, ()), is_weight=is_weight, is_state=is_state))
    edges = [
        _edge(graph, index, producer, node)
        for node in nodes
        if isinstance(node, OperatorNode)
        for producer in graph.producers(node.name)
    ]
    for name, source_of, what in _ends(graph):
        desc, reference = graph.desc(*source_of), graph.reference(*source_of)
        rows = ((what, name), *tensor_rows(desc), ("from", reference))
        edges.append(Edge(index[source_of[0]], len(boxes), short(desc), rows))
        mark = "" if what == OUTPUT else LOOP
        boxes.append(Box(name, Kind.OUTPUT, (cut(mark + name), short(desc)), rows, mark=mark))
    groups = {}
    if source is not None:
        groups = {place: source.part(box.origins) for place, box in enumerate(boxes) if box.origins}
    return Drawing(title or graph.name, tuple(boxes), tuple(edges), groups, tuple(notes))


def reference(box: Box) -> Box:
    """The small box that stands for one drawn elsewhere."""
    return box if box.kind is Kind.REFERENCE else Box(box.name, Kind.REFERENCE, (f"↑ {box.lines[0]}",), box.rows)


# Boxes.


def _is_weight(graph: Graph | IrGraph, node: Node, weights: Collection[str]) -> bool:
    """Whether a node is a constant, an owned input, or a view of one of some weights."""
    if isinstance(node, OperatorNode):
        return is_view(node) and graph.producers(node.name)[0][0] in weights
    return isinstance(node, ConstantNode) or (isinstance(node, InputNode) and node.desc.owned)


def _box(
    graph: Graph | IrGraph, node: Node, origins: tuple[str, ...], *, is_weight: bool = False, is_state: bool = False
) -> Box:
    kind, lines, rows = _about(graph, node)
    family = family_of(node.operator) if isinstance(node, OperatorNode) and kind is Kind.OPERATOR else None
    if is_state:
        kind, rows[0] = Kind.STATE, ("state", node.name)
    if origins:
        if kind is not Kind.OPERATOR:  # a fused box has the shape of an operator: for others, a line says what it is
            lines[0] = f"{kind} {lines[0]}"
        kind = Kind.FUSED
        more = len(origins) - LISTED
        listed = origins if more <= 1 else origins[:LISTED]
        lines += [FROM + each for each in listed] + ([f"{FROM}… {more} more"] if more > 1 else [])
        rows = [*rows, ("came from", ", ".join(origins))]
    weight = short(graph.desc(node.name, 0)) if is_weight else ""
    texts = tuple(cut(line) for line in (node.name, *lines))
    return Box(node.name, kind, texts, tuple(rows), origins, weight, family=family)


def _about(graph: Graph | IrGraph, node: Node) -> tuple[Kind, list[str], list[tuple[str, str]]]:
    """The kind of a node, the lines below its name, and its rows."""
    if isinstance(node, InputNode):
        return Kind.INPUT, [short(node.desc)], [("input", node.name), *tensor_rows(node.desc)]
    if isinstance(node, StateNode):
        rows = [("state", node.name), *tensor_rows(node.desc)]
        if isinstance(node.initial, Scalar):
            rows.append(("initial", str(node.initial)))
        if node.grows is not None:
            rows.append(("grows along axis", str(node.grows)))
        return Kind.STATE, [short(node.desc)], rows
    if isinstance(node, ConstantNode):
        rows = [("constant", node.name), *tensor_rows(node.desc), ("values", values(node.data))]
        return Kind.CONSTANT, [short(node.desc)], rows
    operator = node.operator
    rows = [("node", node.name), ("operator", f"DML_OPERATOR_{operator.dml}"), ("feature level", _level(operator))]
    rows += [(field, text(value)) for field, value in operator.attributes.items()]
    feeding = {port: graph.reference(name, out) for name, out, port in graph.producers(node.name)}
    for each in operator.bindings(Role.INPUT):
        rows.append((each.path, "none" if each.desc is None else f"{whole(each.desc)} ← {feeding.get(each.port, '?')}"))
    for each in operator.bindings(Role.OUTPUT):
        rows.append((each.path, "none" if each.desc is None else whole(each.desc)))
    if isinstance(operator, FillValueConstant):
        return Kind.FILL, [f"{short(operator.output)} = {operator.value}"], rows
    if isinstance(operator, FillValueSequence):
        sign, step = ("−", delta[1:]) if (delta := str(operator.value_delta)).startswith("-") else ("+", delta)
        return Kind.FILL, [short(operator.output), f"{operator.value_start} {sign} {step}·i"], rows
    return Kind.OPERATOR, [operator.name, *field_lines(operator)], rows


def _level(operator: Operator) -> str:
    """The lowest feature level at which the node is legal, as text."""
    return next((f"{level} or newer" for level in FeatureLevel if not operator.level_problems(level)), "none")


# Edges.


def _ends(graph: Graph | IrGraph) -> Iterator[tuple[str, tuple[str, int], str]]:
    """What is drawn at the end, each with its value: outputs, and states with what changes them."""
    if isinstance(graph, Graph):
        changes = {name: (value, graph.node(name)) for name, value in graph.next_values.items()}
        yield from ((name, (value.node, value.port), OUTPUT) for name, value in graph.outputs.items())
        for name, (value, node) in changes.items():
            yield name, (value.node, value.port), _change(node.grows if isinstance(node, StateNode) else None)
    else:
        states = {each.output: each for each in graph.states}
        for name, source in graph.outputs.items():
            state = states.get(name)
            yield (name, source, OUTPUT) if state is None else (state.name, source, _change(state.grows))


def _change(grows: int | None) -> str:
    return "next value of" if grows is None else "appended to"


def _edge(
    graph: Graph | IrGraph, index: Mapping[str, int], producer: tuple[str, int, int], reader: OperatorNode
) -> Edge:
    source, from_port, to_port = producer
    binding = reader.operator.bindings(Role.INPUT)[to_port]
    desc = binding.desc
    assert desc is not None
    rows = (("from", graph.reference(source, from_port)), ("to", f"{reader.name}.{binding.path}"), *tensor_rows(desc))
    return Edge(index[source], index[reader.name], short(desc), rows, binding.path)
