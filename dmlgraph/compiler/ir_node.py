"""A node of an IR: its content, and where its inputs come from."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

from dmlgraph.base.tensor import TensorDesc
from dmlgraph.graph.nodes import ConstantNode, InputNode, Node, OperatorNode
from dmlgraph.operators.declaration.fields import Role
from dmlgraph.operators.declaration.operator import Operator

_Operator = TypeVar("_Operator", bound=Operator)

LIKENESS_BYTES = 64  # of a constant's data, part of the key that finds equal constants

# What a node is: its operator's class, an input or a constant.
Kind = type[Operator] | type[InputNode] | type[ConstantNode]
Signature = tuple[Kind, frozenset[Kind]]


class Source(NamedTuple):
    """An output of a node."""

    node: str
    port: int


class Operand(NamedTuple):
    """A value and the description it is read by."""

    source: Source
    desc: TensorDesc


class IrNode:
    """A node and the source of each of its input bindings; None if an optional tensor is absent.

    Attributes:
        content: the node of a graph.
        operator: its operator; None for inputs and constants.
        kind: its operator's class, InputNode or ConstantNode.
        signature: its kind and the kinds of the nodes that it reads; the IR keeps it.
    """

    __slots__ = ("content", "kind", "likeness", "name", "operator", "signature", "sources")

    signature: Signature

    def __init__(self, content: Node, sources: list[Source | None]) -> None:
        self.sources = sources
        self.put(content)

    def put(self, content: Node) -> None:
        """Replaces the node by another of the same name."""
        self.content, self.name = content, content.name
        self.operator: Operator | None = content.operator if isinstance(content, OperatorNode) else None
        self.kind: Kind = type(content.operator) if isinstance(content, OperatorNode) else type(content)
        self.likeness = _likeness(self)

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
    def output_count(self) -> int:
        return len(self.content.operator.output_descs) if isinstance(self.content, OperatorNode) else 1

    def output_desc(self, port: int = 0) -> TensorDesc:
        if not isinstance(self.content, OperatorNode):
            return self.content.desc
        desc = self.content.operator.output_descs[port]
        if desc is None:
            raise LookupError(f"output {port} of '{self.name}' is absent, and so has no readers")
        return desc

    def operand(self, field: str) -> Operand | None:
        """The operand of a tensor field (the first of an array); None if it is absent."""
        operator = self.operator
        if operator is None or field not in operator.input_fields:
            return None
        port = operator.input_fields.index(field)  # an array is the last of them
        source, desc = self.sources[port], operator.input_descs[port]
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
    """A key that equal nodes share: cheap to compute, and specific enough to keep groups small."""
    content = node.content
    if isinstance(content, OperatorNode):
        operator = content.operator
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


def same(one: Node, other: Node) -> bool:
    """Whether two nodes compute or hold the same."""
    if isinstance(one, OperatorNode) and isinstance(other, OperatorNode):
        # Equal numbers may differ: 0.0 == −0.0, but their text is different.
        return one.operator == other.operator and repr(one.operator.attributes) == repr(other.operator.attributes)
    if isinstance(one, ConstantNode) and isinstance(other, ConstantNode):
        return one.desc == other.desc and one.data.tobytes() == other.data.tobytes()
    return False
