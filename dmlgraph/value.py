"""Value: one tensor in a graph, and Python's operators on it."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from dmlgraph.operators.declaration import calls
from dmlgraph.tensor import DataType, TensorDesc

if TYPE_CHECKING:
    from dmlgraph.graph import Graph

_KEEP = object.__setattr__


class Value:
    """One tensor in a graph: an input, a constant, or an output of a node.

    A value never changes; its node describes it.  `Value(graph, node, port)` raises GraphError for an output that does
    not exist.  A deep copy belongs to a copy of the graph; a shallow copy is the value itself.

    Python's operators make nodes: `+ - * / ** < > == @ -x abs(x)`.  A number on one side becomes a constant fill of one
    element, read through zero strides.  `==` also makes a node: compare values with `is`.
    """

    __slots__ = ("desc", "graph", "node", "port")
    __array_ufunc__ = None  # so that NumPy arrays leave the operators to this class

    graph: Graph
    node: str
    port: int
    desc: TensorDesc

    def __init__(self, graph: Graph, node: str, port: int) -> None:
        _KEEP(self, "graph", graph)
        _KEEP(self, "node", node)
        _KEEP(self, "port", port)
        _KEEP(self, "desc", graph.desc(node, port))

    @classmethod
    def known(cls, graph: Graph, node: str, port: int, desc: TensorDesc) -> Value:
        """A value with the given description, which is that of the node's output."""
        made = cls.__new__(cls)
        _KEEP(made, "graph", graph)
        _KEEP(made, "node", node)
        _KEEP(made, "port", port)
        _KEEP(made, "desc", desc)
        return made

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a value never changes: '{name}' cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a value never changes: '{name}' cannot be deleted")

    def __copy__(self) -> Value:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Value:
        return Value(copy.deepcopy(self.graph, memo), self.node, self.port)

    def __reduce__(self) -> tuple[Any, ...]:
        return Value, (self.graph, self.node, self.port)

    @property
    def dtype(self) -> DataType:
        return self.desc.dtype

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.desc.sizes

    @property
    def reference(self) -> str:
        """How a graph file refers to the value: `node`, `node.output_index`, `node.outputs.1`."""
        return self.graph.reference(self.node, self.port)

    def __add__(self, other: Operand) -> Value:
        return calls.apply("add", self, other)

    def __radd__(self, other: Operand) -> Value:
        return calls.apply("add", other, self)

    def __sub__(self, other: Operand) -> Value:
        return calls.apply("subtract", self, other)

    def __rsub__(self, other: Operand) -> Value:
        return calls.apply("subtract", other, self)

    def __mul__(self, other: Operand) -> Value:
        return calls.apply("multiply", self, other)

    def __rmul__(self, other: Operand) -> Value:
        return calls.apply("multiply", other, self)

    def __truediv__(self, other: Operand) -> Value:
        return calls.apply("divide", self, other)

    def __rtruediv__(self, other: Operand) -> Value:
        return calls.apply("divide", other, self)

    def __pow__(self, other: Operand) -> Value:
        return calls.apply("pow", self, other)

    def __rpow__(self, other: Operand) -> Value:
        return calls.apply("pow", other, self)

    def __matmul__(self, other: Operand) -> Value:
        return calls.apply("gemm", self, other)

    def __rmatmul__(self, other: Operand) -> Value:
        return calls.apply("gemm", other, self)

    def __lt__(self, other: Operand) -> Value:
        return calls.apply("logical_less_than", self, other)

    def __gt__(self, other: Operand) -> Value:
        return calls.apply("logical_less_than", other, self)

    def __eq__(self, other: Operand) -> Value:  # type: ignore[override]
        return calls.apply("logical_equals", self, other)

    def __ne__(self, other: object) -> Value:  # type: ignore[override]
        raise TypeError("'!=' has no operator in DirectML: use if_ on the result of '=='")

    __hash__ = object.__hash__

    def __neg__(self) -> Value:
        return calls.apply("negate", self)

    def __abs__(self) -> Value:
        return calls.apply("abs", self)

    def __bool__(self) -> bool:
        raise TypeError("a value is known only when the graph runs: use if_ to choose element by element")

    def __iter__(self) -> Iterator[Value]:
        raise TypeError("a value is one tensor: use split to cut it into parts")

    def __repr__(self) -> str:
        return f"<Value {self.reference}: {self.desc}>"


Operand = Value | int | float
