"""IrGraph: a graph while passes change it.

A `Graph` only grows; an IR holds the same nodes in a form that rules can search and rewrite.  Rules read an IR and
return data (`Rewrite`); only the IR changes itself.

A consumer reads its producer's output through its own tensor description (broadcasting sets strides of zero), so an
operand is always a source and the description it is read by.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dmlgraph.base.errors import DmlGraphError
from dmlgraph.base.scalar import Scalar
from dmlgraph.base.tensor import TensorDesc
from dmlgraph.compiler.ir_node import IrNode, Kind, Operand, Signature, Source, same
from dmlgraph.compiler.origins import Origins
from dmlgraph.compiler.rule import Constant, Declined, New, Rewrite, Tensor, Viewed
from dmlgraph.compiler.target import Target
from dmlgraph.graph.constant_data import Elements
from dmlgraph.graph.graph import Graph
from dmlgraph.graph.nodes import ConstantNode, InputNode, Node, OperatorNode
from dmlgraph.operators.common.strided import reshaped, through
from dmlgraph.operators.declaration.fields import Role
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.fill import Fill, FillValueConstant
from dmlgraph.operators.view import with_strides

FILL_ELEMENTS = 1 << 16  # the most elements of a fill that are read
UNIFORM_ELEMENTS = 1024  # the most elements of a constant that are compared with one another


class BesideNumber(NamedTuple):
    """A tensor, the operand beside it, and the number that all its elements are."""

    tensor: Operand
    beside: Operand
    number: Scalar


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """What a rewrite did, by names: the nodes that replaced others, the removed ones, and the ones to look at again."""

    standing: tuple[str, ...]
    gone: tuple[str, ...]
    touched: tuple[str, ...]


class IrGraph:
    """A graph that can be rewritten.

    Attributes:
        target: where the graph will run.
        level: the feature level at which new operators must be legal.
        nodes: by name, not in execution order.
        outputs: graph output → its value.
        layouts: graph output → how it is read, if not with the sizes that its node writes.
        origins: node → the nodes of the source graph that went into it.
        kinds: the number of nodes of each kind.
        signatures: the number of nodes of each signature.
    """

    def __init__(self, graph: Graph, target: Target) -> None:
        self.graph, self.target, self.level = graph, target, target.level_for(graph)
        self.layouts = dict(graph.layouts)
        self.nodes: dict[str, IrNode] = {}
        self.outputs = {name: Source(value.node, value.port) for name, value in graph.outputs.items()}
        self.origins = Origins()
        self.kinds: collections.Counter[Kind] = collections.Counter()
        self.signatures: collections.Counter[Signature] = collections.Counter()
        self._users: dict[Source, dict[tuple[str, int], None]] = {}
        self._output_users: dict[Source, list[str]] = {}
        self._uniform: dict[str, Scalar | None] = {}
        self._alike: dict[Any, dict[str, None]] = {}
        self._source_names = {node.name for node in graph.nodes}
        for name, source in self.outputs.items():
            self._output_users.setdefault(source, []).append(name)
        live = graph.live_nodes()
        for node in graph.nodes:
            if node.name in live or isinstance(node, InputNode):
                self._insert(node, [each and Source(*each) for each in graph.sources(node.name)])
        self._order: list[IrNode] | None = list(self.nodes.values())  # as the graph has them
        self._is_changed = len(self.nodes) < len(graph.nodes)

    # Looking up.

    def __getitem__(self, name: str) -> IrNode:
        return self.nodes[name]

    def producer(self, operand: Operand) -> IrNode:
        return self.nodes[operand.source.node]

    def produced(self, operand: Operand) -> TensorDesc:
        """The tensor description that the producer writes."""
        return self.producer(operand).output_desc(operand.source.port)

    def users(self, source: Source) -> list[tuple[IrNode, int]]:
        """The operators that read a value, with their input ports."""
        return [(self.nodes[name], port) for name, port in self._users.get(source, ())]

    def use_count(self, source: Source) -> int:
        """Reads by operators and graph outputs."""
        return len(self._users.get(source, ())) + len(self._output_users.get(source, ()))

    def is_output(self, source: Source) -> bool:
        return source in self._output_users

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
        if operand is None:
            return None
        content = self.producer(operand).content
        if isinstance(content, OperatorNode):
            fill = content.operator
            return fill.value if isinstance(fill, FillValueConstant) else None
        if isinstance(content, ConstantNode):
            if content.name not in self._uniform:
                self._uniform[content.name] = _uniform(content)
            return self._uniform[content.name]
        return None

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
        content = self.producer(operand).content
        if isinstance(content, ConstantNode):
            return operand.desc.unpack(content.desc.pack(content.data))
        if isinstance(content, OperatorNode) and isinstance(content.operator, Fill):
            written = self.produced(operand)
            if written.element_count <= FILL_ELEMENTS:
                return operand.desc.unpack(written.pack(content.operator.evaluate()[0]))
        return None

    def twin(self, node: IrNode) -> IrNode | None:
        """An earlier node that computes the same from the same values."""
        for name in self._alike.get(node.likeness, ()):
            # Only earlier ones: merging the first into the second, and so on, would move the readers again and again.
            if name == node.name:
                return None
            other = self.nodes[name]
            if same(node.content, other.content):
                return other
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

    # Changing.

    def apply(self, node: IrNode, rewrite: Rewrite) -> Change:
        """Replaces a node's outputs by what a rule asks for.

        Raises:
            Declined: the rewrite is not legal here, or the target does not absorb it; the IR has not changed.
        """
        names = self._names(node.name)
        made: list[tuple[Node, list[Source | None]]] = []
        moves: list[tuple[Source, Operand]] = []
        for port, tensor in rewrite.values.items():
            old = node.output_desc(port)
            new = self._build(tensor, names, made, old)
            if (new.desc.dtype, new.desc.sizes) != (old.dtype, old.sizes):
                raise Declined(f"gives {new.desc} in place of {old}")
            moves.append((Source(node.name, port), new))
        self._ask_target(node, made)
        moved = {source for source, _ in moves}
        for port in range(node.output_count):
            if Source(node.name, port) not in moved and self.use_count(Source(node.name, port)):
                raise Declined(f"its output {port} is also read")
        readings = [move for source, new in moves for move in self._readings(node, source, new)]
        gone = self._commit(node, made, moves, readings)
        self._order, self._is_changed = None, True
        came = [content.name for content, _ in made]
        stand = came or [new.source.node for _, new in moves]
        self.origins.replace(gone, stand, came)
        return Change(tuple(stand), tuple(gone), (*came, *(user.name for user, _, _ in readings)))

    def _ask_target(self, node: IrNode, made: Iterable[tuple[Node, Any]]) -> None:
        """Raises Declined where the target does not absorb the node's operator into a new one."""
        for content, _ in made:
            if isinstance(content, OperatorNode):
                why = self.target.absorption_refusal(content.operator, node.operator)
                if why is not None:
                    raise Declined(why)

    def _build(
        self,
        tensor: Tensor,
        names: Iterator[str],
        made: list[tuple[Node, list[Source | None]]],
        like: TensorDesc | None,
    ) -> Operand:
        """An operand for what a rule asks for; appends the nodes it needs to `made`."""
        if isinstance(tensor, Operand):
            return tensor
        if isinstance(tensor, Viewed):
            source, desc = self._build(tensor.new, names, made, None)
            return Operand(source, desc.like(sizes=tensor.sizes))
        # The outermost node is named first: it takes the name of the node it replaces.
        name = next(names)
        if isinstance(tensor, Constant):
            data = np.array(tensor.data, order="C")
            data.flags.writeable = False
            desc = TensorDesc(dtype=data.dtype, sizes=data.shape)
            made.append((ConstantNode(name, desc, Elements(data)), []))
            return Operand(Source(name, 0), _broadcast(desc, tensor.sizes) if tensor.sizes else desc)
        operands = {
            field: [self._build(each, names, made, None) for each in given]
            if isinstance(given, list)
            else None
            if given is None
            else self._build(given, names, made, None)
            for field, given in tensor.tensors.items()
        }
        operator = self._operator(tensor, operands, like)
        made.append((OperatorNode(name, operator, operator.attributes, {}), _in_binding_order(operator, operands)))
        output = operator.output_descs[tensor.port]
        if output is None:
            raise LookupError(f"a rule asks for output {tensor.port} of {operator.name}, which is absent")
        return Operand(Source(name, tensor.port), output)

    def _operator(self, new: New, operands: Mapping[str, Any], like: TensorDesc | None) -> Operator:
        operator = new.operator
        descs = {
            field: tuple(each.desc for each in given) if isinstance(given, list) else given and given.desc
            for field, given in operands.items()
        }
        outputs = dict(new.outputs)
        if like is not None and like.strides is not None and operator.output_fields:
            outputs.setdefault(operator.output_fields[0], {})
            if isinstance(outputs[operator.output_fields[0]], Mapping):
                outputs[operator.output_fields[0]] = dict(outputs[operator.output_fields[0]]) | {
                    "strides": like.strides
                }
        try:
            result = operator(**operator.adapt(descs, new.attributes), **new.attributes, **outputs)
        except DmlGraphError as error:
            raise Declined(f"{operator.name} would be wrong: {error.problems[0]}") from None
        problems = result.level_problems(self.level)
        if problems:
            raise Declined(f"{operator.name}: {problems[0]}")
        return result

    def _readings(self, node: IrNode, old: Source, new: Operand) -> Iterator[tuple[IrNode, int, Operand]]:
        """How each reader of a replaced value reads the replacement."""
        produced = node.output_desc(old.port)
        for user, port in self.users(old):
            reading = user.computation.input_descs[port]
            assert reading is not None
            operand = self.around(Operand(old, reading), produced, new)
            if operand is None:
                raise Declined(f"'{user.name}' reads it through other strides")
            why = self.layout_refusal(user, port, operand.desc)
            if why is not None:
                raise Declined(f"'{user.name}': {why}")
            yield user, port, operand
        if self.is_output(old):
            if new.desc.effective_strides != produced.effective_strides:
                raise Declined("it is an output of the graph with another layout")
            is_old = new.source.node in self.nodes and new.source.node != node.name  # a new node may take the name
            is_computed = is_old and self[new.source.node].operator is not None
            if is_old and not is_computed and new.desc != self.produced(new):
                raise Declined("it is an output of the graph, and would be an input or a constant read in another way")
            if is_old and self.produced(new).total_bytes != produced.total_bytes:
                raise Declined("it is an output of the graph, and would be a part of a larger buffer")

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

    def _commit(
        self,
        node: IrNode,
        made: Iterable[tuple[Node, list[Source | None]]],
        moves: Iterable[tuple[Source, Operand]],
        readings: Sequence[tuple[IrNode, int, Operand]],
    ) -> list[str]:
        taken = {old: self._output_users.pop(old) for old, _ in moves if old in self._output_users}
        for old, _ in moves:
            self._users.pop(old, None)
        self._remove(node)
        # Before new nodes are inserted: a new node of the same name may read the same values.
        unread = self._stop_reading(node)
        for content, sources in made:
            self._insert(content, sources)
        for user, port, operand in readings:
            self._rewire(user, port, operand)
        for name in {user.name for user, _, _ in readings}:
            _count_down(self.signatures, self.nodes[name].signature)
            self._sign(self.nodes[name])
        for old, new in moves:
            for name in taken.get(old, ()):
                self._read_output(name, new)
                self._output_users.setdefault(new.source, []).append(name)
        return [node.name, *self._drop_unused(unread)]

    def _read_output(self, name: str, new: Operand) -> None:
        """Makes a value an output of the graph, which keeps its sizes."""
        desc = self.layouts.pop(name, None) or new.desc
        self.outputs[name] = new.source
        if desc != self[new.source.node].output_desc(new.source.port):
            self.layouts[name] = desc

    def _insert(self, content: Node, sources: list[Source | None]) -> None:
        node = self.nodes[content.name] = IrNode(content, sources)
        self.kinds[node.kind] += 1
        self._alike.setdefault(node.likeness, {})[content.name] = None
        for port, source in enumerate(sources):
            if source is not None:
                self._users.setdefault(source, {})[content.name, port] = None
        self._sign(node)

    def _rewire(self, user: IrNode, port: int, operand: Operand) -> None:
        self._forget(user)
        user.sources[port] = operand.source
        self._users.setdefault(operand.source, {})[user.name, port] = None
        content = user.content
        assert isinstance(content, OperatorNode)
        operator = content.operator
        if operator.input_descs[port] != operand.desc:
            operator = operator.with_inputs({port: operand.desc})
            content = dataclasses.replace(content, operator=operator)
        user.put(content)
        self._alike.setdefault(user.likeness, {})[user.name] = None

    def _remove(self, node: IrNode) -> None:
        self._forget(node)
        del self.nodes[node.name]
        _count_down(self.kinds, node.kind)
        _count_down(self.signatures, node.signature)

    def _sign(self, node: IrNode) -> None:
        """Finds the signature of a new node, whose sources exist."""
        nodes = self.nodes
        reads = frozenset([nodes[source.node].kind for source in node.sources if source is not None])
        node.signature = node.kind, reads
        self.signatures[node.signature] += 1

    def _forget(self, node: IrNode) -> None:
        """Removes a node from the search for twins, before it changes or is removed."""
        self._alike.get(node.likeness, {}).pop(node.name, None)

    def _stop_reading(self, node: IrNode) -> list[Source]:
        """Removes a node's reads; returns what it read."""
        read = [(port, source) for port, source in enumerate(node.sources) if source is not None]
        for port, source in read:
            self._users.get(source, {}).pop((node.name, port), None)
        return [source for _, source in read]

    def _drop_unused(self, waiting: list[Source]) -> Iterator[str]:
        """Removes the producers of these values that are no longer used, and then their producers."""
        while waiting:
            producer = self.nodes.get(waiting.pop().node)
            if producer is None or isinstance(producer.content, InputNode) or self._is_used(producer):
                continue
            self._remove(producer)
            yield producer.name
            waiting.extend(self._stop_reading(producer))

    def _is_used(self, node: IrNode) -> bool:
        return any(self.use_count(Source(node.name, port)) for port in range(node.output_count))

    def _names(self, base: str) -> Iterator[str]:
        """The node's name, then free names derived from it."""
        yield base
        for index in itertools.count(1):
            name = f"{base}_{index}"
            if name not in self.nodes and name not in self._source_names:
                yield name

    # Back to a graph.

    def finish(self) -> Graph:
        """The ir as a graph, its nodes in execution order; unused inputs stay."""
        if not self._is_changed:
            return self.graph.as_fused()
        nodes = ((node.content, node.sources) for node in self.in_order())
        return Graph.assembled(self.graph, nodes, self.outputs, self.layouts)

    def in_order(self) -> list[IrNode]:
        """All nodes, each after the nodes it reads."""
        if self._order is not None:
            return self._order
        order: list[IrNode] = []
        done: set[str] = set()
        for name in self.nodes:
            stack = [name]
            while stack:
                current = stack[-1]
                if current in done:
                    stack.pop()
                    continue
                node = self.nodes[current]
                waiting = [each.node for each in node.sources if each and each.node not in done]
                if waiting:
                    stack.extend(reversed(waiting))
                else:
                    stack.pop()
                    done.add(current)
                    order.append(node)
        self._order = order
        return order


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


def _broadcast(desc: TensorDesc, sizes: tuple[int, ...]) -> TensorDesc:
    """A description broadcast to other sizes through zero strides; packed where that is the same."""
    if desc.element_count == math.prod(sizes):
        return desc.like(sizes=sizes)
    return desc.broadcast_to(sizes)


def _in_binding_order(operator: Operator, operands: Mapping[str, Any]) -> list[Source | None]:
    sources: list[Source | None] = []
    for binding in operator.bindings(Role.INPUT):
        given = operands.get(binding.field)
        operand = given if binding.place is None or given is None else given[binding.place]
        sources.append(operand and operand.source)
    return sources


def _count_down(counts: collections.Counter[Any], key: Any) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]


def _uniform(node: ConstantNode) -> Scalar | None:
    if node.desc.element_count > UNIFORM_ELEMENTS:
        return None
    data = node.data
    first = Scalar.of(data.flat[0], node.desc.dtype)
    if data.size > 1:
        raw = np.ascontiguousarray(data).view(np.uint8).reshape(data.size, -1)
        if not (raw == raw[0]).all():
            return None
    return first
