"""From a fused graph back to a `Graph`, which can be saved: what reads through strides reads a view.

Compiling what is made gives the same DML_GRAPH_DESC, and is not fused again.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dmlgraph.base.errors import DmlGraphError, GraphError
from dmlgraph.base.free_names import FreeNames
from dmlgraph.base.report import Report
from dmlgraph.base.tensor import MAX_RANK, TensorDesc
from dmlgraph.compiler.desc import GraphDesc, GraphState, OperatorDescNode
from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.ir_node import IrNode, Source
from dmlgraph.compiler.lowering import lower
from dmlgraph.compiler.views import remove_views
from dmlgraph.graph.graph import Graph
from dmlgraph.graph.nodes import ConstantNode, InputNode, OperatorNode
from dmlgraph.graph.value import Value
from dmlgraph.operators.common.strided import is_packed, steps
from dmlgraph.operators.declaration.fields import Role
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.view import BroadcastTo, Reshape, Subscript, Transpose, View


def as_graph(ir: IrGraph) -> Graph:
    """The graph that a fused one is, whose origin says that it is fused.

    Raises:
        GraphError: a node reads or writes through strides that no views express.
    """
    made = _Maker(ir).run()
    again = IrGraph.of(made, ir.target)
    remove_views(again)
    if _text(lower(again)) != _text(lower(ir)):
        raise _unexpressed(None)
    return made


def _unexpressed(node: str | None) -> GraphError:
    message = "a fused graph cannot be saved: it has strides that a graph file cannot express"
    hint = "save the graph before fusing, or print what it becomes: dmlgraph lower FILE"
    return GraphError(message, code="fused-graph", node=node, hint=hint)


class _Maker:
    """The state of one conversion: the values that the nodes of the fused graph have become."""

    def __init__(self, ir: IrGraph) -> None:
        self.ir, self.names = ir, FreeNames(ir.names)
        self.graph = Graph(ir.name, target=ir.level)
        self.graph.origin.fused = True
        self.values: dict[Source, Value] = {}
        self.states = {state.input: state for state in ir.states}
        self.lengths = {state.length: state for state in ir.states if state.length is not None}

    def run(self) -> Graph:
        for node in self.ir.in_order():
            if node.name not in self.lengths:
                self._add(node)
        changing = {state.output: state for state in self.ir.states if state.output is not None}
        for name, source in self.ir.outputs.items():
            value = self._read(source, self.ir.layouts.get(name), name)
            state = changing.get(name)
            if state is None:
                self.graph.output(name, value)
            elif state.grows is None:
                self.graph.update(self.values[Source(state.input, 0)], value)
            else:
                self.graph.append(self.values[Source(state.input, 0)], value)
        return self.graph

    def _add(self, node: IrNode) -> None:
        content, name = node.content, node.name
        if isinstance(content, InputNode):
            desc = content.desc
            if name in self.states:
                self._state(self.states[name], desc)
                return
            self.values[Source(name, 0)] = self.graph.input(
                name, sizes=desc.sizes, dtype=desc.dtype, strides=desc.strides, owned=desc.owned
            )
        elif isinstance(content, ConstantNode):
            self.values[Source(name, 0)] = self.graph.constant(name, content.data)
        else:
            assert isinstance(content, OperatorNode)
            self._operator(node, content.operator)

    def _state(self, state: GraphState, desc: TensorDesc) -> None:
        initial = getattr(state.initial, "array", state.initial)
        made = self.graph.state(state.name, sizes=desc.sizes, dtype=desc.dtype, initial=initial, grows=state.grows)
        self.values[Source(state.input, 0)] = made
        if state.length is not None:
            self.values[Source(state.length, 0)] = Value(self.graph, state.name, 1)

    def _operator(self, node: IrNode, operator: Operator) -> None:
        sources = [None if source is None else Source(*source) for source in node.sources]
        wanted = dict(operator.by_field(Role.OUTPUT, dict(enumerate(operator.output_descs))))
        outputs = {field: False if desc is None else desc for field, desc in wanted.items()}
        plain = {port: self.values[source] for port, source in enumerate(sources) if source is not None}
        for strided in (True, False):
            read = plain if strided else self._all_read(node.name, operator, sources)
            tensors = {
                field: list(value) if isinstance(value, tuple) else value
                for field, value in operator.by_field(Role.INPUT, read).items()
            }
            for asked in ({}, outputs):
                if self._makes(operator, node.name, tensors, asked, strided=strided):
                    values = self.graph.add(type(operator), tensors, operator.attributes, asked, node.name)
                    made = {Source(node.name, port): each for port, each in enumerate(values) if each is not None}
                    self.values.update(made)
                    return
        raise _unexpressed(node.name)

    def _makes(
        self, operator: Operator, name: str, tensors: Mapping[str, Any], outputs: Mapping[str, Any], *, strided: bool
    ) -> bool:
        """Whether a node of these has this operator; views have strides only when they are lowered."""
        try:
            with Report() as report:
                described = self.graph.described(name, type(operator), tensors, operator.attributes, outputs, report)
        except DmlGraphError:
            return False
        made, wanted = (_as_plain(each, strided=strided) for each in (described[0].operator, operator))
        return repr(made) == repr(wanted)  # in which NaN is equal to itself

    def _all_read(self, name: str, operator: Operator, sources: Sequence[Source | None]) -> dict[int, Value]:
        descs = operator.input_descs
        return {port: self._read(source, descs[port], name) for port, source in enumerate(sources) if source}

    def _read(self, source: Source, reading: TensorDesc | None, name: str) -> Value:
        """A value as a description reads it: with views where that is not how it is written."""
        value, written = self.values[source], self.ir.desc(*source)
        if reading is None or (reading.sizes, steps(reading)) == (written.sizes, steps(written)):
            return value
        for way in _ways(written, reading):
            for view, fields in way:
                base = self.names.take(f"{name}.{view.name}")
                (made,) = self.graph.add(view, {"input": value}, fields, {}, base)
                assert made is not None
                value = made
            return value
        raise _unexpressed(name)


_Way = list[tuple[type[View], dict[str, Any]]]


def _plain(desc: TensorDesc | None) -> TensorDesc | None:
    """The description without what does nothing: strides of dimensions of size 1."""
    if desc is None or desc.strides is None:
        return desc
    strides = tuple(0 if size == 1 else stride for size, stride in zip(desc.sizes, desc.strides, strict=True))
    return desc.like(owned=desc.owned) if is_packed(desc) else desc.model_copy(update={"strides": strides})


def _as_plain(operator: Operator, *, strided: bool = True) -> Operator:
    """The operator with plain descriptions, whether inputs are owned or not: lowering decides that.

    If it is not `strided`, those of inputs have no strides.
    """
    inputs = {
        port: desc.like() if desc and not strided else _plain(desc and desc.model_copy(update={"owned": False}))
        for port, desc in enumerate(operator.input_descs)
    }
    outputs = {port: _plain(desc) for port, desc in enumerate(operator.output_descs)}
    fields = operator.by_field(Role.INPUT, inputs) | operator.by_field(Role.OUTPUT, outputs)
    return operator.replace(**fields)


def _text(desc: GraphDesc) -> str:
    """A lowered graph as text, with plain descriptions."""
    nodes = tuple(
        dataclasses.replace(node, operator=_as_plain(node.operator)) if isinstance(node, OperatorDescNode) else node
        for node in desc.nodes
    )
    outputs = tuple(dataclasses.replace(each, desc=_plain(each.desc) or each.desc) for each in desc.outputs)
    return str(dataclasses.replace(desc, nodes=nodes, outputs=outputs))


def _ways(written: TensorDesc, reading: TensorDesc) -> Iterator[_Way]:
    """The views through which a value, written as one description, is read as another; several do the same.

    They take a range of each dimension, of the value or of its buffer cut at strides of both, and put them in order.
    """
    taken = [(size, stride) for size, stride in steps(reading) if stride]
    narrow = [1 if stride == 0 else size for size, stride in zip(reading.sizes, reading.effective_strides, strict=True)]
    after: _Way = [(Reshape, {"sizes": narrow})]
    if tuple(narrow) != reading.sizes:
        after.append((BroadcastTo, {"sizes": list(reading.sizes)}))
    for before, parts in _cuts(written, {stride for _, stride in taken}):
        way = _range(parts, taken)
        if way is not None:
            yield [*before, *way, *after]


def _cuts(written: TensorDesc, strides: set[int]) -> Iterator[tuple[_Way, list[tuple[int, int]]]]:
    """Ways to see a value as dimensions (size, stride): its own, or those of its buffer, cut at these strides too."""
    own = steps(written)
    yield [(Reshape, {"sizes": [size for size, _ in own] or [1]})], own
    order = sorted(range(written.rank), key=lambda axis: (-written.effective_strides[axis], axis))
    packed = written.like(sizes=tuple(written.sizes[axis] for axis in order))
    if steps(packed) != sorted(own, key=lambda pair: -pair[1]):
        return  # it has gaps, or repeats elements
    before: _Way = [] if order == sorted(order) else [(Transpose, {"permutation": order})]
    for cuts in (strides | {1} | {stride for _, stride in own}, strides | {1}):
        ends = sorted(cuts, reverse=True)
        pairs = list(itertools.pairwise([written.element_count, *ends]))
        if all(end % cut == 0 for end, cut in pairs):
            parts = [(end // cut, cut) for end, cut in pairs if end != cut]
            yield [*before, (Reshape, {"sizes": [size for size, _ in parts] or [1]})], parts


def _range(parts: Sequence[tuple[int, int]], taken: Sequence[tuple[int, int]]) -> _Way | None:
    """Views of dimensions (size, stride) that take others, in their order; None if they are not ranges of these."""
    places: list[int] = []
    ranges = ["0"] * len(parts)
    for size, stride in taken:
        place = next((at for at, part in enumerate(parts) if at not in places and _holds(part, size, stride)), None)
        if place is None:
            return None
        extent, cut = parts[place]
        places.append(place)
        ranges[place] = ":" if size == extent else f":{(size - 1) * (stride // cut) + 1}:{stride // cut}"
    if len(parts) > MAX_RANK:
        return None
    way: _Way = [] if all(each == ":" for each in ranges) else [(Subscript, {"index": ", ".join(ranges)})]
    order = [sorted(places).index(place) for place in places]
    return way if order == sorted(order) else [*way, (Transpose, {"permutation": order})]


def _holds(part: tuple[int, int], size: int, stride: int) -> bool:
    """Whether a dimension has these places."""
    extent, cut = part
    return bool(cut) and stride % cut == 0 and (size - 1) * (stride // cut) < extent
