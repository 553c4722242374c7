"""NumPy's functions of values of a graph, as a few of DirectML's operators.

    h = np.exp(-x).sum(axis=1)
    h = np.concatenate([np.where(x > 0, x, 0), y], axis=1)

Without them NumPy would take a value for an object, and return an array of objects.  What they give has the sizes and
the numbers that NumPy gives, with these differences.  Nothing is converted: data types are those of the operators, and
integers divide to integers, rounded toward zero.  Where NumPy gives a number without dimensions, there is one element,
sizes [1].  A truth value is a uint8.  Of NaN the operators make what they make of it.
"""

from __future__ import annotations

import inspect
import itertools
import math
import numbers
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlgraph import operators as ops
from dmlgraph.base.errors import GraphError, OperatorError
from dmlgraph.base.tensor import DataType, DataTypeLike
from dmlgraph.graph import calls, composed
from dmlgraph.graph.undone import undone
from dmlgraph.operators.catalog.foreign_names import entries, plain
from dmlgraph.operators.catalog.registry import REGISTRY, full_name
from dmlgraph.operators.directml_enums import ReduceFunction

if TYPE_CHECKING:
    from dmlgraph.graph.composed import Axes, Tensor
    from dmlgraph.graph.value import Operand, Value

NEVER_CHANGES = "a value never changes: take the result"
# What to write for an argument that is not taken.
_INSTEAD = {
    "where": "np.where(condition, x, number) keeps some elements, and has another number for the others",
    "out": NEVER_CHANGES,
    "dtype": "x.astype(dtype) has another data type",
    "initial": "np.add, np.maximum or np.minimum of the result and the number",
    "ddof": "multiply by n / (n - ddof)",
    "correction": "multiply by n / (n - correction)",
    "order": "x.T.reshape(…).T has the elements in Fortran's order",
    "weights": "divide the sum of x * weights by the sum of the weights",
    "decimals": "np.round(x * 100) / 100 keeps two",
}
_OTHERS = "compute it before or after the run, or write it with the operators that 'dmlgraph operators' lists"


def _refused(called: str, hint: str | None) -> OperatorError:
    message = f"no operators compute {called} of values of a graph"
    return OperatorError(message, code="unknown-operator", hint=hint or _OTHERS)


def _meant(name: str) -> str | None:
    """What to write in place of a function of NumPy; None if no operator is like it."""
    from dmlgraph.operators.catalog.hints import function_hint

    if name in _LIKE:
        return _LIKE[name]
    entry = entries().get(plain(name))
    known = full_name(name) is not None or (entry is not None and name in entry.names("numpy"))
    return function_hint(name) if known else None


# What to write for functions that no operator computes; names are separated by spaces.
_LIKE = {
    name: f"write {text}"
    for text, names in {
        "np.concatenate([…], axis)": "hstack vstack dstack column_stack block append",
        "np.concatenate of slices": "insert delete",
        "x[::-1], a step of -1 along an axis": "flip fliplr flipud",
        "x[None] or x.expand_dims(axis)": "atleast_1d atleast_2d atleast_3d",
        "np.split(x, places, axis)": "array_split hsplit vsplit dsplit",
        "np.where(condition, x, y)": "select choose piecewise heaviside",
        "np.where(np.isnan(x), 0, x) first": "nansum nanmean nanmax nanmin nan_to_num",
        "np.sum(x * y, axis), or x @ y": "inner vdot vecdot tensordot matvec vecmat",
        "x.broadcast_to(sizes); operators broadcast themselves": "meshgrid broadcast_arrays",
        "abs(x - y) <= tolerance": "isclose allclose",
        "np.max or np.min of truth values, x != 0": "any all",
        "np.mean(x, axis), or np.sum(x * weights, axis) / np.sum(weights, axis)": "average",
        "np.sqrt(np.sum(x * x, axis))": "norm vector_norm matrix_norm",
        "np.floor_divide or np.trunc, and what remains": "modf divmod",
        "np.sum(x * np.eye(n, dtype=np.float32))": "trace",
        "x.swapaxes(-1, -2)": "matrix_transpose",
        "np.split(x, size, axis), and squeeze": "unstack",
        "np.min(x == y)": "array_equal",
        "np.max(x, axis) - np.min(x, axis)": "ptp",
        "x[1:] - x[:-1]": "diff",
        "np.zeros_like(x)": "empty_like",
        "x.astype(dtype)": "astype",
        "np.power(x.astype('float32'), y)": "float_power",
        "x == -np.inf": "isneginf",
        "x == np.inf": "isposinf",
        "x < 0": "signbit",
        "np.where(y < 0, -abs(x), abs(x))": "copysign",
        "np.sqrt(x * x + y * y)": "hypot",
        "np.sign(x) * abs(x) ** (1 / 3)": "cbrt",
        "np.maximum(x, y) + np.log(1 + np.exp(-abs(x - y)))": "logaddexp",
        "np.exp(x) - 1, which is not as exact near 0": "expm1",
        "np.log(x + 1), which is not as exact near 0": "log1p",
    }.items()
    for name in names.split()
}


# Functions of elements.


@undone
def floor_divided(a: Any, b: Any) -> Any:
    """⌊a / b⌋, of integers too, whose quotients DirectML rounds toward zero."""
    value = next(each for each in (a, b) if hasattr(each, "graph"))
    if value.dtype.is_float:
        return calls.apply(ops.Floor, calls.apply(ops.Divide, a, b))
    rest = calls.apply(ops.ModulusFloor, a, b)
    return calls.apply(ops.Divide, calls.apply(ops.Subtract, a, rest), b)


def _times(x: Value, number: float) -> Any:
    return calls.apply(ops.Multiply, x, number)


def _bits(of_bits: Callable[[], type[Any]], of_truths: Callable[[], type[Any]]) -> Callable[..., Any]:
    """An operator on bits, or on truth values, which keep numbers of 0 and 1."""

    def made(a: Any, b: Any) -> Any:
        value = next(each for each in (a, b) if hasattr(each, "graph"))
        return calls.apply(of_truths() if value.is_truth(a, b) else of_bits(), a, b)

    return made


# Those that have not the name of an operator, nor another one for it in `foreign_names`, or are more than it.
_UFUNCS: dict[str, Callable[..., Any]] = {
    "positive": lambda x: x,
    "square": lambda x: x * x,
    "not_equal": lambda a, b: calls.apply(ops.LogicalNot, calls.apply(ops.LogicalEquals, a, b)),
    # `pow` of integers gives integers, which `exp` refuses as it should.
    "exp2": lambda x: calls.apply(ops.Pow, 2, x) if x.dtype.is_float else calls.apply(ops.Exp, x),
    "log2": lambda x: _times(calls.apply(ops.Log, x), 1 / math.log(2)),
    "log10": lambda x: _times(calls.apply(ops.Log, x), 1 / math.log(10)),
    "isfinite": lambda x: abs(x) < math.inf,
    "invert": lambda x: ~x,
    "floor_divide": floor_divided,
    "degrees": lambda x: _times(x, 180 / math.pi),
    "rad2deg": lambda x: _times(x, 180 / math.pi),
    "radians": lambda x: _times(x, math.pi / 180),
    "deg2rad": lambda x: _times(x, math.pi / 180),
    "matmul": composed.product,
    "bitwise_count": lambda x: calls.apply(ops.BitCount, abs(x) if x.dtype.is_signed else x),
    "bitwise_and": _bits(lambda: ops.BitAnd, lambda: ops.LogicalAnd),
    "bitwise_or": _bits(lambda: ops.BitOr, lambda: ops.LogicalOr),
    "bitwise_xor": _bits(lambda: ops.BitXor, lambda: ops.LogicalXor),
}
_REDUCTIONS = {
    np.add.reduce: np.sum,
    np.multiply.reduce: np.prod,
    np.maximum.reduce: np.max,
    np.minimum.reduce: np.min,
}
# Arguments that ask for what a function does without them.
_SILENT: dict[str, Any] = {
    "where": (True,),
    "casting": ("same_kind",),
    "order": ("C", "K"),
    "subok": (True, False),
    "copy": (True, False),
}


@undone
def universal(ufunc: np.ufunc, method: str, inputs: Sequence[Operand], given: Mapping[str, Any]) -> Any:
    """What a function of NumPy of elements, such as `np.exp`, makes of values: the operator that computes it.

    Raises:
        OperatorError: no operator does, or it is used in another way than as a function of its tensors.
    """
    name = ufunc.__name__
    if method != "__call__":
        like = _REDUCTIONS.get(getattr(ufunc, method))
        raise _refused(f"np.{name}.{method}", f"write np.{like.__name__}(x, axis=0)" if like else None)
    for field, value in given.items():
        if not _says_nothing(field, value):
            raise _refused(f"np.{name} with {field}", _INSTEAD.get(field))
    made = _UFUNCS.get(name) or _operator(name)
    if made is None:
        raise _refused(f"np.{name}", _meant(name))
    return made(*inputs)


def _operator(name: str) -> Callable[..., Any] | None:
    """What applies the operator that is the same as a function of elements."""
    entry = entries().get(plain(name))
    if full_name(name) is None and (entry is None or name not in entry.names("numpy") or entry.instead):
        return None
    found, fields = (full_name(name), {}) if entry is None else (entry.operator, entry.fields)
    return lambda *tensors: calls.apply(REGISTRY[str(found)], *tensors, **fields)


# Other functions.


@undone
def function_of_values(function: Any, given: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """What a function of NumPy makes of values.

    Arguments have NumPy's names and order; those that say what NumPy does without them are taken everywhere.

    Raises:
        OperatorError: no operators say the same, or it is given something else than they take.
    """
    called = f"{function.__module__.replace('numpy', 'np')}.{function.__name__}"
    made = _FUNCTIONS.get(function)
    if made is None:
        raise _refused(called, _meant(function.__name__))
    try:
        said = _said(function, made, given, keywords)
    except TypeError as error:
        raise OperatorError(f"{called}: {error}", code="unknown-field", node=function.__name__) from None
    taken = inspect.signature(made).parameters
    for field, value in said.items():
        if field not in taken:
            allowed = ", ".join(taken)
            problem = {"field": field, "got": value, "allowed": allowed, "hint": _INSTEAD.get(field)}
            raise OperatorError(f"{called} of values does not take this", code="unknown-field", **problem)
    missing = [each.name for each in taken.values() if each.default is each.empty and each.name not in said]
    if missing:
        message = f"{called} of values needs {' and '.join(missing)}"
        raise OperatorError(message, code="missing", field=missing[0], hint=_meant(function.__name__))
    return made(**said)


def _said(function: Any, made: Callable[..., Any], given: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a function by NumPy's names, without those that have NumPy's own default.

    Raises:
        TypeError: they are not those of the function.
    """
    try:
        signature = inspect.signature(function)
    except ValueError:  # of a function in C, in older versions of NumPy
        signature = inspect.signature(made)
    said: dict[str, Any] = {}
    for name, value in signature.bind(*given, **keywords).arguments.items():
        parameter = signature.parameters[name]
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            said |= value
        elif value is not parameter.default and not _says_nothing(name, value):
            said[name] = value
    return said


def _says_nothing(field: str, value: Any) -> bool:
    """Whether an argument asks for what NumPy does without it."""
    if value is None or (field == "out" and isinstance(value, tuple) and not any(each is not None for each in value)):
        return field != "axis"
    return any(value is each or (type(value) is type(each) and value == each) for each in _SILENT.get(field, ()))


def _concatenate(arrays: Sequence[Tensor], axis: int | None = 0) -> Value:
    joined = [each.reshape(-1) for each in arrays] if axis is None else list(arrays)
    made: Value = calls.apply(ops.Join, joined, axis=axis or 0)
    return made


def _stack(arrays: Sequence[Tensor], axis: int = 0) -> Value:
    return _concatenate([np.expand_dims(each, axis) for each in arrays], axis)


def _split(ary: Value, indices_or_sections: Any, axis: int = 0) -> list[Value]:
    place = composed.axis_of(ary, axis)
    size = ary.shape[place]
    if isinstance(indices_or_sections, numbers.Integral):
        parts = operator.index(indices_or_sections)
        if parts < 1 or size % parts:
            message = "cannot be split into equal parts"
            raise GraphError(message, code="sizes", field="sizes", got=size, allowed=f"a multiple of {parts}")
        sizes = [size // parts] * parts
    else:
        ends = [int(each) if each >= 0 else size + int(each) for each in indices_or_sections]
        sizes = [end - start for start, end in itertools.pairwise([0, *ends, size])]
        if min(sizes) < 1:
            message = "a part would have no element"
            raise GraphError(message, code="sizes", field="indices", got=[*ends], allowed=f"growing, 1 to {size - 1}")
    return list(calls.apply(ops.Split, ary, axis=place, outputs=sizes))


def _where(condition: Tensor, x: Operand, y: Operand) -> Value:
    if not np.ndim(x) and not np.ndim(y):
        message, hint = "nothing determines the data type of numbers", "dg.if_(condition, 1, 0, dtype='float32')"
        raise OperatorError(f"np.where: {message}", code="undetermined", field="x", got=x, hint=f"write {hint}")
    truth = condition if getattr(condition, "dtype", None) is DataType.UINT8 else condition != 0
    made: Value = calls.apply(ops.If, truth, x, y)
    return made


def _clip(a: Value, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Value:
    low, high = (_number(each) for each in (a_min if min is None else min, a_max if max is None else max))
    if all(each is None or isinstance(each, numbers.Number) for each in (low, high)):
        least, most = -math.inf if low is None else low, math.inf if high is None else high
        if isinstance(least, numbers.Real) and isinstance(most, numbers.Real) and least > most:
            least = most  # as in NumPy
        made: Value = calls.apply(ops.Clip, a, min=least, max=most)
        return made
    if low is not None:
        a = calls.apply(ops.Max, a, low)
    return a if high is None else calls.apply(ops.Min, a, high)


def _number(given: Any) -> Any:
    """A number, for an array without dimensions."""
    return given.item() if isinstance(given, (np.ndarray, np.generic)) and not given.ndim else given


def _dot(a: Any, b: Any) -> Value:
    """The product of matrices and vectors, in which `np.dot` and `np.matmul` are the same; else of numbers."""
    if not np.ndim(a) or not np.ndim(b):
        made: Value = calls.apply(ops.Multiply, a, b)
        return made
    if np.ndim(b) > 2 or (np.ndim(b) == 2 and np.ndim(a) > 2):
        message = "np.dot of more than two dimensions is not a product of matrices"
        raise OperatorError(message, code="rank", node="dot", hint="write a @ b")
    return composed.product(a, b)


def _place_of(operator: Callable[[], type[Any]]) -> Callable[..., Value]:
    """`np.argmax` or `np.argmin`."""

    def place(a: Value, axis: int | None = None, *, keepdims: bool = False) -> Value:
        whole = a.reshape(-1) if axis is None else a
        made: Value = calls.apply(operator(), whole, axes=0 if axis is None else axis)
        if axis is None:
            return made.reshape([1] * a.rank) if keepdims else made
        return made if keepdims else made.reshape(1) if a.rank == 1 else made.squeeze(axis)

    return place


def _reduction(function: ReduceFunction) -> Callable[..., Value]:
    """`np.sum` and the like."""

    def reduce(
        a: Value, axis: Axes | None = None, dtype: DataTypeLike | None = None, *, keepdims: bool = False
    ) -> Value:
        return composed.reduced(a, function, axis, keepdims, None, dtype)

    return reduce


def _var(a: Value, axis: Axes | None = None, dtype: DataTypeLike | None = None, *, keepdims: bool = False) -> Value:
    x = composed.converted(a, dtype)
    apart = x - x.mean(axis, keepdims=True)
    return (apart * apart).mean(axis, keepdims=keepdims)


def _std(a: Value, axis: Axes | None = None, dtype: DataTypeLike | None = None, *, keepdims: bool = False) -> Value:
    made: Value = calls.apply(ops.Sqrt, _var(a, axis, dtype, keepdims=keepdims))
    return made


def _round(a: Value) -> Value:
    made: Value = calls.apply(ops.Round, a)
    return made


def _full_like(a: Value, fill_value: float, dtype: DataTypeLike | None = None, *, shape: Any = None) -> Value:
    sizes = a.shape if shape is None else [shape] if np.ndim(shape) == 0 else list(shape)
    return a.graph.fill_value_constant(value=fill_value, sizes=sizes, dtype=dtype or a.dtype)


def _filled(number: int) -> Callable[..., Value]:
    """`np.zeros_like` or `np.ones_like`."""
    return lambda a, dtype=None, shape=None: _full_like(a, number, dtype, shape=shape)


def _moved(a: Value, source: Axes, destination: Axes) -> Value:
    """`np.moveaxis`."""
    here = [composed.axis_of(a, axis, "source") for axis in composed.listed(source)]
    there = [composed.axis_of(a, axis, "destination") for axis in composed.listed(destination)]
    if len({*here}) != len(here) or len({*there}) != len(there) or len(here) != len(there):
        raise GraphError("must be as many axes, each once", code="duplicate", field="destination", got=destination)
    order = [axis for axis in range(a.rank) if axis not in here]
    for place, axis in sorted(zip(there, here, strict=True)):
        order.insert(place, axis)
    return a.transpose(*order)


def _size(a: Value, axis: int | None = None) -> int:
    return math.prod(a.shape) if axis is None else a.shape[composed.axis_of(a, axis)]


_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    **dict.fromkeys((np.max, np.amax), _reduction(ReduceFunction.MAX)),
    **dict.fromkeys((np.min, np.amin), _reduction(ReduceFunction.MIN)),
    np.sum: _reduction(ReduceFunction.SUM),
    np.mean: _reduction(ReduceFunction.AVERAGE),
    np.prod: _reduction(ReduceFunction.MULTIPLY),
    np.var: _var,
    np.std: _std,
    np.argmax: _place_of(lambda: ops.Argmax),
    np.argmin: _place_of(lambda: ops.Argmin),
    np.concatenate: _concatenate,
    np.stack: _stack,
    np.split: _split,
    np.where: _where,
    np.clip: _clip,
    np.dot: _dot,
    **dict.fromkeys((np.round, np.around), _round),
    np.reshape: lambda a, shape: a.reshape(shape),
    np.ravel: lambda a: a.reshape(-1),
    np.transpose: lambda a, axes=(): a.transpose(*axes),
    np.squeeze: lambda a, axis=None: a.squeeze(*(() if axis is None else (axis,))),
    np.swapaxes: lambda a, axis1, axis2: a.swapaxes(axis1, axis2),
    np.moveaxis: _moved,
    np.linalg.matmul: composed.product,
    np.expand_dims: lambda a, axis: a.expand_dims(axis),
    np.broadcast_to: lambda array, shape: array.broadcast_to(shape),
    np.full_like: _full_like,
    np.zeros_like: _filled(0),
    np.ones_like: _filled(1),
    np.shape: lambda a: a.shape,
    np.ndim: lambda a: a.rank,
    np.size: _size,
}
# What values have as functions and not as methods, by the method's name.
METHODS = {name: f"write np.{name}(value, …)" for name in sorted({function.__name__ for function in _FUNCTIONS})}
