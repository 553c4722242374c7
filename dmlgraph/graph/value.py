"""Value: one tensor in a graph, and Python's operators on it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from dmlgraph import operators as ops
from dmlgraph.base.errors import OperatorError
from dmlgraph.base.expressions import Size
from dmlgraph.base.tensor import DataType, DataTypeLike, TensorDesc
from dmlgraph.graph import calls, composed, numpy_functions
from dmlgraph.graph.hinted import Hinted
from dmlgraph.graph.nodes import OperatorNode, is_view
from dmlgraph.operators.common.subscripts import as_text
from dmlgraph.operators.declaration.operator import Operator

if TYPE_CHECKING:
    from dmlgraph.graph.graph import Graph

_KEEP = object.__setattr__

Lazy = Callable[[], type[Operator]]  # an operator whose module is imported when it is used
Method = Callable[["Value", "Operand"], "Value"]
Reduction = Callable[..., "Value"]


def _both_ways(operator: Lazy, of_truths: Lazy | None = None) -> tuple[Method, Method]:
    """The methods of a binary operator and of its mirror image; between truth values it may be another."""

    def chosen(value: Value, other: Operand) -> type[Operator]:
        return of_truths() if of_truths is not None and value.is_truth(other) else operator()

    def method(self: Value, other: Operand) -> Value:
        return calls.apply(chosen(self, other), self, other)

    def mirrored(self: Value, other: Operand) -> Value:
        return calls.apply(chosen(self, other), other, self)

    return method, mirrored


def _reduction(function: str, what: str) -> Reduction:
    """A method of a value that reduces axes, with the arguments of NumPy's."""

    def method(
        self: Value,
        axis: int | Sequence[int] | None = None,
        dtype: DataTypeLike | None = None,
        out: None = None,
        keepdims: bool = False,
        *,
        name: str | None = None,
    ) -> Value:
        _never_changes(out)
        return composed.reduced(self, function, axis, keepdims, name, dtype)

    method.__qualname__ = "Value." + {"average": "mean"}.get(function, function)
    method.__doc__ = f"""{what} of the elements along axes: `reduce`, and `squeeze` unless `keepdims`.

        Of all axes, which is the default, one number is left, sizes [1].  With a data type the elements are cast first.
        """
    return method


def _extreme(function: str, what: str) -> Reduction:
    """The same for the greatest or the least: NumPy's methods of these take no data type."""

    def method(
        self: Value,
        axis: int | Sequence[int] | None = None,
        out: None = None,
        keepdims: bool = False,
        *,
        name: str | None = None,
    ) -> Value:
        _never_changes(out)
        return composed.reduced(self, function, axis, keepdims, name)

    method.__qualname__ = f"Value.{function}"
    method.__doc__ = f"""{what} of the elements along axes: `reduce`, and `squeeze` unless `keepdims`.

        Of all axes, which is the default, one number is left, sizes [1].
        """
    return method


def _never_changes(out: object) -> None:
    if out is not None:
        message, hint = "cannot be given here", numpy_functions.NEVER_CHANGES
        raise OperatorError(message, code="unknown-field", field="out", got=out, hint=hint)


NUMBERS = "a graph has numbers only when it runs, graph.compile(device=…).run({name: array})[output]"


class Value(Hinted):
    """One tensor in a graph: an input, a constant, or an output of a node.

    A value never changes; its node describes it.  `Value(graph, node, port)` raises GraphError for an output that does
    not exist.  A deep copy belongs to a copy of the graph; a shallow copy is the value itself.

    Python's operators make nodes: `+ - * / // % ** << >> < <= > >= == != & | ^ ~ @ -x abs(x) x[…]`, and so do NumPy's
    functions, `np.exp(x)`.  A number on one side becomes a constant fill of one element, read through zero strides, and
    a NumPy array a constant.  `==` also makes a node: compare values with `is`.  `& | ^ ~` are logical between results
    of comparisons and logical operators, else bitwise; `%` has the sign of the divisor, and `/` of integers rounds
    toward zero.
    """

    __slots__ = ("desc", "graph", "node", "port")
    _INSTEAD = numpy_functions.METHODS | {
        "ndim": "write value.rank",
        "size": "value.sizes are the sizes, np.size(value) is the number of elements",
        "mT": "write value.swapaxes(-1, -2)",
    }

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

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes, by NumPy's name; those that follow dims of the graph still follow them in what is made of them.

        Each is a number, for comparisons too.  Where the graph takes it, `x.reshape(x.shape[0], -1)`, it is an
        expression over dims, as arithmetic on it is.
        """
        return self.graph.shape(self.node, self.port)

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return self.desc.rank

    @property
    def length(self) -> Value:
        """Of a growing state: how many rows it had before the run, uint32 [1]."""
        return self.graph.value(f"{self.node}.length")

    # Views: the same elements with other sizes.

    @property
    def T(self) -> Value:  # noqa: N802 - NumPy's name
        """With the dimensions in reverse order."""
        return self.transpose()

    def reshape(self, *sizes: Size | Sequence[Size], name: str | None = None) -> Value:
        """The elements in row-major order with other sizes, of which one may be −1: what remains."""
        return calls.apply(ops.Reshape, self, name=name, sizes=_numbers(sizes))

    def transpose(self, *permutation: int | Sequence[int], name: str | None = None) -> Value:
        """The dimensions in another order, by default reversed."""
        given = {"permutation": _numbers(permutation)} if permutation not in ((), (None,)) else {}
        return calls.apply(ops.Transpose, self, name=name, **given)

    def flatten(self, axis: int = 1, *, name: str | None = None) -> Value:
        """The dimensions from `axis` on as one."""
        return calls.apply(ops.Flatten, self, name=name, axis=axis)

    def squeeze(self, *axes: int | Sequence[int], name: str | None = None) -> Value:
        """Without these dimensions of size 1, by default without all of them."""
        given = {"axes": _numbers(axes)} if axes else {}
        return calls.apply(ops.Squeeze, self, name=name, **given)

    def expand_dims(self, *axes: int | Sequence[int], name: str | None = None) -> Value:
        """With new dimensions of size 1 at these places of the result."""
        return calls.apply(ops.ExpandDims, self, name=name, axes=_numbers(axes))

    def broadcast_to(self, *sizes: Size | Sequence[Size], name: str | None = None) -> Value:
        """Repeated to these sizes by NumPy's rules."""
        return calls.apply(ops.BroadcastTo, self, name=name, sizes=_numbers(sizes))

    def permute(self, *permutation: int | Sequence[int], name: str | None = None) -> Value:
        """`transpose`, by PyTorch's name."""
        return self.transpose(*permutation, name=name)

    def swapaxes(self, axis1: int, axis2: int, *, name: str | None = None) -> Value:
        """Two dimensions in the place of one another."""
        return composed.swapped(self, axis1, axis2, name)

    def __getitem__(self, index: Any) -> Value:
        """NumPy's basic indexing: integers, ranges with steps, None and ...; bounds may be expressions over dims."""
        return calls.apply(ops.Subscript, self, index=as_text(index))

    # NumPy's methods and functions: see `composed` and `numpy_functions` of this folder.

    def astype(self, dtype: DataTypeLike, *, name: str | None = None) -> Value:
        """In another data type: `cast`.  `bool`, as in NumPy, is what is not 0: truth values, which are uint8."""
        if dtype in (bool, np.bool_, "bool"):
            return composed.truth(self, name)
        return calls.apply(ops.Cast, self, dtype=dtype, name=name)

    sum = _reduction("sum", "The sum")
    mean = _reduction("average", "The mean")
    max = _extreme("max", "The greatest")
    min = _extreme("min", "The least")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Operand, **given: Any) -> Any:
        return numpy_functions.universal(ufunc, method, inputs, given)

    def __array_function__(self, function: Any, _: Any, given: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        return numpy_functions.function_of_values(function, given, keywords)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        raise TypeError(f"a value is not an array: {NUMBERS}")

    def __float__(self) -> NoReturn:
        raise TypeError(f"a value is not a number: {NUMBERS}")

    def __len__(self) -> NoReturn:
        raise TypeError("a value has no length of its own: value.sizes are its sizes, value.shape follows dims")

    # Python's operators.

    __add__, __radd__ = _both_ways(lambda: ops.Add)
    __sub__, __rsub__ = _both_ways(lambda: ops.Subtract)
    __mul__, __rmul__ = _both_ways(lambda: ops.Multiply)
    __truediv__, __rtruediv__ = _both_ways(lambda: ops.Divide)
    __pow__, __rpow__ = _both_ways(lambda: ops.Pow)
    __lshift__, __rlshift__ = _both_ways(lambda: ops.BitShiftLeft)
    __rshift__, __rrshift__ = _both_ways(lambda: ops.BitShiftRight)
    __mod__, __rmod__ = _both_ways(lambda: ops.ModulusFloor)
    __and__, __rand__ = _both_ways(lambda: ops.BitAnd, lambda: ops.LogicalAnd)
    __or__, __ror__ = _both_ways(lambda: ops.BitOr, lambda: ops.LogicalOr)
    __xor__, __rxor__ = _both_ways(lambda: ops.BitXor, lambda: ops.LogicalXor)
    __lt__, __gt__ = _both_ways(lambda: ops.LogicalLessThan)
    __le__ = _both_ways(lambda: ops.LogicalLessThanOrEqual)[0]
    __ge__ = _both_ways(lambda: ops.LogicalGreaterThanOrEqual)[0]

    def __eq__(self, other: Operand) -> Value:  # type: ignore[override]
        return calls.apply(ops.LogicalEquals, self, other)

    def __ne__(self, other: Operand) -> Value:  # type: ignore[override]
        return calls.apply(ops.LogicalNot, self == other)

    __hash__ = object.__hash__

    def __matmul__(self, other: Operand) -> Value:
        return composed.product(self, other)

    def __rmatmul__(self, other: Operand) -> Value:
        return composed.product(other, self)

    def __floordiv__(self, other: Operand) -> Value:
        return numpy_functions.floor_divided(self, other)  # type: ignore[no-any-return]

    def __rfloordiv__(self, other: Operand) -> Value:  # type: ignore[misc]
        return numpy_functions.floor_divided(other, self)  # type: ignore[no-any-return]

    def __pos__(self) -> Value:
        return self

    def __invert__(self) -> Value:
        return calls.apply(ops.LogicalNot if self.is_truth() else ops.BitNot, self)

    def is_truth(self, *others: object) -> bool:
        """Whether this and the other values are results of comparisons or logical operators: 0 or 1 everywhere.

        `& | ^ ~` are logical for these, and bitwise for other values.
        """
        return all(each._is_truth() for each in (self, *others) if isinstance(each, Value))

    def _is_truth(self) -> bool:
        node = self.graph.node(self.node)
        while is_view(node):
            node = self.graph.node(self.graph.producers(node.name)[0][0])
        return isinstance(node, OperatorNode) and node.operator.is_truth

    def __neg__(self) -> Value:
        return calls.apply(ops.Negate, self)

    def __abs__(self) -> Value:
        return calls.apply(ops.Abs, self)

    def __bool__(self) -> bool:
        raise TypeError("a value is known only when the graph runs: use if_ to choose element by element")

    def __iter__(self) -> Iterator[Value]:
        raise TypeError("a value is one tensor: use split to cut it into parts")

    def __repr__(self) -> str:
        return f"<Value {self.reference}: {self.desc}>"


def _numbers(given: tuple[Any, ...]) -> Any:
    """Numbers that are given one by one, or as a list or an array."""
    if len(given) == 1 and isinstance(given[0], (list, tuple, np.ndarray)):
        return given[0].tolist() if isinstance(given[0], np.ndarray) else given[0]
    return list(given)


Operand = Value | int | float | np.ndarray[Any, Any]
