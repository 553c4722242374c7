"""IrGraph: a graph while it is compiled.

A `Graph` only grows; an `IrGraph` holds its nodes in a form that can be searched and rewritten.  It is made of a graph,
passes rewrite it, it is lowered to a `GraphDesc`, and a device may rewrite that once more in the same form.  It is read
with the methods that a graph has too: `nodes`, `inputs`, `outputs`, `producers`, `desc`, `reference`.

A consumer reads its producer's output through its own tensor description (broadcasting sets strides of zero), so an
operand is always a source and the description it is read by.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, cast

import numpy as np

from dmlgraph.base.by_name import above
from dmlgraph.base.errors import GraphError
from dmlgraph.base.free_names import FreeNames
from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.scalar import Scalar
from dmlgraph.base.tensor import TensorDesc
from dmlgraph.compiler.desc import GraphState
from dmlgraph.compiler.ir_node import Content, IrNode, Operand, Source
from dmlgraph.compiler.ir_structure import IrStructure
from dmlgraph.compiler.target import Target
from dmlgraph.graph.nodes import LENGTH, ConstantNode, InputNode, Node, output_paths
from dmlgraph.operators.common.strided import reshaped, through
from dmlgraph.operators.declaration.fields import Role
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.fill import Fill
from dmlgraph.operators.view import with_strides

if TYPE_CHECKING:
    from dmlgraph.graph.graph import Graph
    from dmlgraph.graph.network import Output

FILL_ELEMENTS = 1 << 16  # the most elements of a fill that are read


class BesideNumber(NamedTuple):
    """A tensor, the operand beside it, and the number that all its elements are."""

    tensor: Operand
    beside: Operand
    number: Scalar


class IrGraph(IrStructure):
    """A graph that can be rewritten.  Outputs need all of its nodes, except inputs.

    Args:
        name: the graph's.
        level: the feature level at which new operators must be legal.
        target: where the graph will run; by default one that has no passes.
        input_type: of its inputs; a lowered graph has its own.

    Attributes:
        promised: graph output → its description when the graph was assembled, which passes keep.
        states: those of the graph; passes see them as inputs and outputs.
        kept: the nodes that passes leave as they are.
    """

    def __init__(
        self,
        name: str,
        level: FeatureLevel,
        target: Target | None = None,
        *,
        input_type: type[Content] = InputNode,
    ) -> None:
        super().__init__(input_type)
        self.name, self.level = name, level
        self.target = target or Target(level, ())
        self.promised: Mapping[str, TensorDesc] = {}
        self.states: tuple[GraphState, ...] = ()
        self.kept: frozenset[str] = frozenset()

    @classmethod
    def of(cls, graph: Graph, target: Target | None = None) -> IrGraph:
        """The nodes of a graph, whose dims are resolved, for a target."""
        ir = cls(graph.name, graph.level if target is None else target.level_for(graph), target)
        nodes: _Nodes = [(node, graph.sources(node.name)) for node in graph.nodes]
        outputs = {name: Source(value.node, value.port) for name, value in graph.outputs.items()}
        if graph.states:
            nodes, ir.states = _with_states_as_inputs(graph, nodes, outputs)
        ir.assemble(nodes, outputs)
        return ir

    def assemble(
        self,
        nodes: Iterable[tuple[Content, Sequence[tuple[str, int] | None]]],
        outputs: Mapping[str, Source],
        layouts: Mapping[str, TensorDesc] | None = None,
    ) -> None:
        """Replaces all nodes by others, without those that no output needs; inputs stay.

        Args:
            nodes: in execution order, each with its sources; they are known to be legal.
            outputs: graph output → its value.
            layouts: as the attribute.
        """
        given = list(nodes)
        self.names.update([content.name for content, _ in given])
        live = {source.node for source in outputs.values()}
        for content, sources in reversed(given):
            if content.name in live:
                live.update([source[0] for source in sources if source is not None])
        self._clear()
        for content, sources in given:
            if content.name in live or isinstance(content, self._input_type):
                self._insert(content, [source and Source(*source) for source in sources])
        self._order = list(self._nodes.values())
        for name, source in outputs.items():
            self.set_output(name, source, (layouts or {}).get(name))
        self.promised = self.output_descs
        self.is_changed = False

    @contextlib.contextmanager
    def keeping(self, names: Collection[str]) -> Iterator[None]:
        """Keeps nodes: rewrites must leave them alone, and cannot take them into others, because each is an output."""
        self.kept = frozenset(name for name in names if name in self._nodes and self._nodes[name].sources)
        free = FreeNames(self.outputs)
        sources = [Source(name, port) for name in sorted(self.kept) for port in range(self._nodes[name].output_count)]
        outputs = {free.take(f"kept {source.node}"): source for source in sources if self._has(source)}
        for name, source in outputs.items():
            self.set_output(name, source)
        try:
            yield
        finally:
            self.kept = frozenset()
            for name in outputs:
                self.remove_output(name)

    def _has(self, source: Source) -> bool:
        return self._nodes[source.node].descs[source.port] is not None

    # Reading, as a graph is read.

    @property
    def nodes(self) -> list[Node]:
        """All nodes in execution order, of a graph that is not lowered."""
        return cast("list[Node]", [node.content for node in self.in_order()])

    @property
    def inputs(self) -> list[InputNode]:
        return [node for node in self.nodes if isinstance(node, InputNode)]

    @property
    def output_descs(self) -> dict[str, TensorDesc]:
        """The descriptions of the outputs, by name."""
        return {name: self.layouts.get(name) or self.desc(*source) for name, source in self.outputs.items()}

    def node(self, name: str) -> Node:
        """The content of a node, of a graph that is not lowered."""
        return cast("Node", self._nodes[name].content)

    def sources(self, name: str) -> tuple[Source | None, ...]:
        """What a node reads, by input port; None where an optional tensor is left out."""
        return tuple(self._nodes[name].sources)

    def producers(self, name: str) -> list[tuple[str, int, int]]:
        """The sources of a node: (node, its output port, the input port here), by input port."""
        return [(*source, port) for port, source in enumerate(self._nodes[name].sources) if source is not None]

    def reference(self, name: str, port: int) -> str:
        """The reference to an output of a node in a graph file."""
        return name + output_paths(self.node(name))[port]

    @property
    def origins(self) -> dict[str, tuple[str, ...]]:
        """Node → the nodes of the source graph that went into it."""
        return {name: node.origins for name, node in self._nodes.items()}

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Writes a graph file that says that it is fused, or a model for DxDispatch; the rest is as in `Graph.save`.

        Raises:
            GraphError: it goes to ONNX, or has strides that a graph file cannot express.
        """
        above("formats.load_save:save", self, path, force=force)

    def __reduce__(self) -> NoReturn:
        raise not_saved("a graph file")

    # Looking up.

    def producer(self, operand: Operand) -> IrNode:
        return self._nodes[operand.source.node]

    def produced(self, operand: Operand) -> TensorDesc:
        """The tensor description that the producer writes."""
        return self.producer(operand).output_desc(operand.source.port)

    def only_use(self, operand: Operand) -> bool:
        """Whether nothing else reads the value, so that an absorbed producer disappears."""
        return self.use_count(operand.source) == 1

    def made_by(self, operand: Operand | None, *operators: type[Operator]) -> IrNode | None:
        """The producer if it is one of these operators; else None."""
        if operand is None:
            return None
        node = self.producer(operand)
        return node if isinstance(node.operator, operators) else None

    def number(self, operand: Operand | None) -> Scalar | None:
        """The number that all elements are; None if that is not known."""
        return None if operand is None else self.producer(operand).number

    def beside_a_number(self, node: IrNode) -> BesideNumber | None:
        """The operands of a node with fields a and b of which one is a number; else None."""
        a, b = node.operand("a"), node.operand("b")
        left, right = self.number(a), self.number(b)
        if a is None or b is None:
            return None
        if right is not None and left is None:
            return BesideNumber(a, b, right)
        return BesideNumber(b, a, left) if left is not None and right is None else None

    def values(self, operand: Operand) -> np.ndarray[Any, Any] | None:
        """The elements of a constant, or of a fill of at most FILL_ELEMENTS, as the operand reads them; else None."""
        node = self.producer(operand)
        content, fill = node.content, node.operator
        if isinstance(content, ConstantNode):
            return operand.desc.unpack(content.desc.pack(content.data))
        if isinstance(fill, Fill):
            written = self.produced(operand)
            if written.element_count <= FILL_ELEMENTS:
                return operand.desc.unpack(written.pack(fill.evaluate()[0]))
        return None

    def around(self, operand: Operand, produced: TensorDesc, instead: Operand) -> Operand | None:
        """`instead` read the way `operand` reads a value written with the description `produced`.

        Both values have the same sizes.  Returns None where no strides over the buffer of `instead` do the same.
        """
        if operand.desc.dtype is not produced.dtype:
            return None  # a copy by words
        reading = broadcast_strides(operand.desc, produced, instead.desc)
        if reading is None and produced.strides is None and produced.sizes == instead.desc.sizes:
            reading = through(
                operand.desc.sizes, operand.desc.effective_strides, produced.sizes, instead.desc.effective_strides
            )
            is_whole = operand.desc.strides is None and operand.desc.element_count == produced.element_count
            if reading is None and is_whole:
                reading = reshaped(produced.sizes, instead.desc.effective_strides, operand.desc.sizes)
        if reading is None:
            return None
        packed = instead.desc.like(sizes=operand.desc.sizes, owned=instead.desc.owned)
        return Operand(instead.source, with_strides(packed, reading))

    def layout_refusal(self, user: IrNode, port: int, desc: TensorDesc) -> str | None:
        """Why an operator cannot read an input with these strides; None if it can."""
        operator = user.computation
        if desc.strides is None or desc == operator.input_descs[port]:
            return None
        if 0 in desc.strides and not operator.broadcasts:
            problem = next(operator.with_inputs({port: desc}).constraints(), None)
            if problem is not None:
                return str(problem)
        return self.target.layout_refusal(operator, operator.bindings(Role.INPUT)[port].path, desc)

    def write_refusal(self, node: IrNode, desc: TensorDesc) -> str | None:
        """Why an operator cannot write its first output with these strides; None if it can."""
        operator = node.computation
        return self.target.layout_refusal(operator, operator.bindings(Role.OUTPUT)[0].path, desc)


_Nodes = list[tuple[Node, "Sequence[Output | None]"]]  # in execution order, each with what it reads


def _with_states_as_inputs(
    graph: Graph, nodes: _Nodes, outputs: dict[str, Source]
) -> tuple[_Nodes, tuple[GraphState, ...]]:
    """The nodes with inputs in place of states and their lengths; adds their next values to the outputs."""
    names, states, next_values = FreeNames(outputs), [], graph.next_values
    inputs: dict[str, list[InputNode]] = {}
    for state in graph.states:
        after = next_values.get(state.name)
        output = None if after is None else names.take(f"{state.name}.next")
        if output is not None and after is not None:
            outputs[output] = Source(after.node, after.port)
        read = [InputNode(state.name, state.desc, state.declared)]
        if state.grows is not None:
            read.append(InputNode(f"{state.name}.length", LENGTH, {}))
        inputs[state.name] = read
        length = None if state.grows is None else read[1].name
        states.append(GraphState(state.name, state.name, length, output, state.grows, state.initial))
    for name, source in outputs.items():
        outputs[name] = Source(inputs[source.node][source.port].name, 0) if source.node in inputs else source
    replaced: _Nodes = []
    for node, sources in nodes:
        if node.name in inputs:
            replaced += [(each, ()) for each in inputs[node.name]]
        else:
            read_from = [
                (inputs[each[0]][each[1]].name, 0) if each is not None and each[0] in inputs else each
                for each in sources
            ]
            replaced.append((node, read_from))
    return replaced, tuple(states)


def not_saved(form: str) -> GraphError:
    """The error of saving an IR, in a form such as "a graph file"."""
    return GraphError(
        f"a fused graph cannot be saved: it may use strides that {form} cannot express",
        code="fused-graph",
        hint="save the graph before fusing",
    )


def broadcast_strides(reading: TensorDesc, written: TensorDesc, other: TensorDesc) -> tuple[int, ...] | None:
    """Strides that read `other` as `reading` reads `written`, if that only broadcasts; else None."""
    extra = reading.rank - written.rank
    if extra < 0 or other.sizes != written.sizes:
        return None
    strides = []
    for axis, (size, stride) in enumerate(zip(reading.sizes, reading.effective_strides, strict=True)):
        place = axis - extra
        if place < 0:
            if size > 1 and stride != 0:
                return None
            strides.append(0)
        elif written.sizes[place] == size:
            if size > 1 and stride != written.effective_strides[place]:
                return None
            strides.append(other.effective_strides[place])
        elif written.sizes[place] == 1 and stride == 0:
            strides.append(0)
        else:
            return None
    return tuple(strides)
