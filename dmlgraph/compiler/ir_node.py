"""A node of an IR: its content, where its inputs come from, and what went into it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from dmlgraph.base.scalar import Scalar
from dmlgraph.base.tensor import TensorDesc
from dmlgraph.graph.nodes import ConstantNode, InputNode, Node, OperatorNode
from dmlgraph.operators.declaration.fields import Role
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.fill import FillValueConstant

if TYPE_CHECKING:
    from dmlgraph.compiler.desc import ConstantDescNode, GraphInput, OperatorDescNode


# A node of a graph that is built, or of a lowered one.
Content: TypeAlias = "Node | GraphInput | OperatorDescNode | ConstantDescNode"

_Operator = TypeVar("_Operator", bound=Operator)

UNIFORM_ELEMENTS = 1024  # the most elements of a constant that are compared with one another
LIKENESS_BYTES = 64  # of a constant's data, part of the key that finds equal constants

# What a node is: its operator's class, an input or a constant.
Kind = type[Operator] | type[InputNode] | type[ConstantNode]
Signature = tuple[Kind, frozenset[Kind]]


class Source(NamedTuple):
    """An output of a node."""

    node: str
    port: int


class Use(NamedTuple):
    """An input of a node."""

    node: str
    port: int


class Operand(NamedTuple):
    """A value and the description it is read by."""

    source: Source
    desc: TensorDesc


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """Nodes of the source graph, and earlier origins.  Thousands of rewrites in a row share their history."""

    names: tuple[str, ...]
    before: tuple[Origin, ...] = ()

    @classmethod
    def merged(cls, *origins: Origin) -> Origin:
        """The nodes of all these origins, in their order."""
        return cls((), origins)

    def __iter__(self) -> Iterator[str]:
        """The names in the order in which they went in, each once."""
        found: dict[str, None] = {}
        seen: set[int] = set()
        waiting = [self]
        while waiting:
            origin = waiting.pop()
            if id(origin) not in seen:
                seen.add(id(origin))
                found.update(dict.fromkeys(origin.names))
                waiting.extend(reversed(origin.before))
        return iter(found)


class IrNode:
    """A node and the source of each of its input bindings; None if an optional tensor is absent.

    Attributes:
        content: the node of a graph that is built, or of a lowered graph.
        operator: its operator; None for inputs and constants.
        descs: the descriptions of its outputs, None for those that are absent.
        kind: its operator's class, or its content's.
        likeness: a key that equal nodes share: cheap to compute, and specific enough to keep groups small.
        signature: its kind and the kinds of the nodes that it reads; the graph keeps it.
    """

    __slots__ = (
        "_number", "_origin", "content", "descs", "kind", "likeness", "name", "operator", "signature", "sources",
    )  # fmt: skip

    signature: Signature

    def __init__(self, content: Content, sources: list[Source | None]) -> None:
        self.sources = sources
        self._origin: Origin | None = None  # of a node that no rewrite touched: itself
        self.put(content)

    def put(self, content: Content) -> None:
        """Replaces the node by another of the same name."""
        operator: Operator | None = getattr(content, "operator", None)
        self.content, self.name, self.operator = content, content.name, operator
        self.kind: Kind = type(content if operator is None else operator)  # type: ignore[assignment]
        self.descs = (content.desc,) if operator is None else operator.output_descs  # type: ignore[union-attr]
        self.likeness = _likeness(self)
        self._number: tuple[Scalar | None] | None = None  # not yet known

    @property
    def origin(self) -> Origin:
        """The nodes of the source graph that went into it."""
        return self._origin or Origin((self.name,))

    @origin.setter
    def origin(self, origin: Origin) -> None:
        self._origin = origin

    @property
    def origins(self) -> tuple[str, ...]:
        """The names of the nodes of the source graph that went into it."""
        return (self.name,) if self._origin is None else tuple(self._origin)

    @property
    def computation(self) -> Operator:
        """The operator of a node that is neither an input nor a constant."""
        if self.operator is None:
            raise LookupError(f"'{self.name}' computes nothing")
        return self.operator

    def computing(self, kind: type[_Operator]) -> _Operator:
        """The node's operator, which is of this kind: rules name the kinds that they are called for.

        Raises:
            LookupError: it is of another kind, or the node is an input or a constant.
        """
        if isinstance(self.operator, kind):
            return self.operator
        raise LookupError(f"'{self.name}' is not a {kind.__name__}")

    @property
    def number(self) -> Scalar | None:
        """The number that all elements of the first output are; None if that is not known."""
        if self._number is None:
            content, fill = self.content, self.operator
            known = _uniform(content) if isinstance(content, ConstantNode) else None
            self._number = (fill.value if isinstance(fill, FillValueConstant) else known,)
        return self._number[0]

    @property
    def output_count(self) -> int:
        return len(self.descs)

    def output_desc(self, port: int = 0) -> TensorDesc:
        desc = self.descs[port]
        if desc is None:
            raise LookupError(f"output {port} of '{self.name}' is absent, and so has no readers")
        return desc

    def operand(self, field: str) -> Operand | None:
        """The operand of a tensor field (the first of an array); None if it is absent."""
        operator = self.operator
        if operator is None or field not in operator.input_fields:
            return None
        return self.operand_at(operator.input_fields.index(field))  # an array is the last of them

    def operand_at(self, port: int) -> Operand | None:
        """The operand of an input binding; None if it is absent."""
        source, desc = self.sources[port], self.computation.input_descs[port]
        return None if source is None or desc is None else Operand(source, desc)

    def needed(self, field: str) -> Operand:
        """The operand of a tensor field that the node's operator always has."""
        operand = self.operand(field)
        if operand is None:
            raise LookupError(f"'{self.name}' has no '{field}': it is optional")
        return operand

    def operands(self, field: str | None = None) -> list[Operand]:
        """The operands of a field, or of all fields in binding order, without absent tensors."""
        bound = [] if self.operator is None else self.operator.bindings(Role.INPUT)
        return [
            Operand(source, each.desc)
            for each, source in zip(bound, self.sources, strict=True)
            if source is not None and each.desc is not None and field in (None, each.field)
        ]


def _likeness(node: IrNode) -> Any:
    content, operator = node.content, node.operator
    if operator is not None:
        if not node.sources:
            return type(operator), hash(operator)
        fields = operator.__dict__
        names = operator.attribute_fields
        return type(operator), tuple(node.sources), hash(tuple([fields[each] for each in names])) if names else 0
    if isinstance(content, ConstantNode):
        return (
            content.desc.dtype,
            content.desc.sizes,
            content.data.flat[: LIKENESS_BYTES // content.data.itemsize].tobytes(),
        )
    return content.name


def _uniform(node: ConstantNode) -> Scalar | None:
    if node.desc.element_count > UNIFORM_ELEMENTS:
        return None
    data = node.data
    raw = np.ascontiguousarray(data).view(np.uint8).reshape(data.size, -1)
    return Scalar.of(data.flat[0], node.desc.dtype) if (raw == raw[0]).all() else None


def with_operator(content: Content, operator: Operator) -> Content:
    """A node with another operator."""
    changed: Content = dataclasses.replace(content, operator=operator)  # type: ignore[arg-type]
    return changed


def same(one: Content, other: Content) -> bool:
    """Whether two nodes compute or hold the same."""
    if isinstance(one, OperatorNode) and isinstance(other, OperatorNode):
        # Equal numbers may differ: 0.0 == −0.0, but their text is different.
        return one.operator == other.operator and repr(one.operator.attributes) == repr(other.operator.attributes)
    if isinstance(one, ConstantNode) and isinstance(other, ConstantNode):
        return one.desc == other.desc and one.data.tobytes() == other.data.tobytes()
    return False
