"""What NumPy's functions make of values: nodes, where a few operators of DirectML say the same, else an error.

    np.concatenate([x, y], axis=1), np.where(x > 0, x, 0), np.argmax(x, axis=-1)

Without this, NumPy would take a value for an object, and return an array of objects.  Functions of elements, such as
`np.exp`, are in `dmlgraph.graph.composed`.
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dmlgraph import operators as ops
from dmlgraph.base.errors import GraphError, OperatorError
from dmlgraph.graph import calls
from dmlgraph.graph.composed import Axes

if TYPE_CHECKING:
    from dmlgraph.graph.value import Operand, Value


def function_of_values(function: Any, given: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """What a function of NumPy makes of values.

    Raises:
        OperatorError: no operators say the same, or it is given something else than they take.
    """
    name = function.__name__
    called = f"{function.__module__.replace('numpy', 'np')}.{name}"
    made = _FUNCTIONS.get(name) if function.__module__ == "numpy" else None
    if made is None:
        from dmlgraph.operators.catalog.hints import attribute_hint

        message, hint = f"no operators compute {called} of values of a graph", attribute_hint(name, ())
        raise OperatorError(message, code="unknown-operator", node=name, hint=hint)
    try:
        inspect.signature(made).bind(*given, **keywords)
    except TypeError as error:
        message = f"{called} of values of a graph: {error}"
        taken = ", ".join(map(str, inspect.signature(made, eval_str=False).parameters))
        raise OperatorError(message, code="unknown-field", node=name, allowed=taken) from None
    return made(*given, **keywords)


def _concatenate(arrays: Sequence[Operand], axis: int = 0) -> Value:
    made: Value = calls.apply(ops.Join, list(arrays), axis=axis)
    return made


def _stack(arrays: Sequence[Value], axis: int = 0) -> Value:
    return _concatenate([_of_values("np.stack", each).expand_dims(axis) for each in arrays], axis)


def _of_values(called: str, given: Value) -> Value:
    """A value among arrays.

    Raises:
        GraphError: it is an array.
    """
    if not hasattr(given, "graph"):
        hint = "graph.constant(name, array) makes one of an array"
        raise GraphError(f"{called} takes values of a graph", code="not-a-value", got=type(given), hint=hint)
    return given


def _split(ary: Value, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Value]:
    size = ary.sizes[axis]
    if isinstance(indices_or_sections, int):
        parts = indices_or_sections
        if parts < 1 or size % parts:
            message = "cannot be split into equal parts"
            raise GraphError(message, code="sizes", field="sizes", got=size, allowed=f"a multiple of {parts}")
        sizes = [size // parts] * parts
    else:
        sizes = [end - start for start, end in itertools.pairwise([0, *indices_or_sections, size])]
    return list(calls.apply(ops.Split, ary, axis=axis, outputs=sizes))


def _where(condition: Operand, x: Operand, y: Operand) -> Value:
    made: Value = calls.apply(ops.If, condition, x, y)
    return made


def _clip(a: Value, a_min: float | None = None, a_max: float | None = None) -> Value:
    low, high = -math.inf if a_min is None else a_min, math.inf if a_max is None else a_max
    made: Value = calls.apply(ops.Clip, a, min=low, max=high)
    return made


def _dot(a: Value, b: Value) -> Value:
    """The product of matrices, in which `np.dot` and `np.matmul` are the same."""
    if max(len(a.shape), len(b.shape)) > 2:
        message = "np.dot of more than two dimensions is not a product of matrices"
        raise OperatorError(message, code="rank", node="dot", hint="write a @ b")
    made: Value = calls.apply(ops.Gemm, a, b)
    return made


def _place_of(operator: Callable[[], type[Any]]) -> Callable[..., Value]:
    """`np.argmax` or `np.argmin`."""

    def place(a: Value, axis: int | None = None, *, keepdims: bool = False) -> Value:
        whole = a.reshape(-1) if axis is None else a
        made: Value = calls.apply(operator(), whole, axes=0 if axis is None else axis)
        return made if keepdims or whole.rank == 1 else made.squeeze(0 if axis is None else axis)

    return place


def _var(a: Value, axis: Axes | None = None, *, keepdims: bool = False) -> Value:
    apart = a - a.mean(axis, keepdims=True)
    return (apart * apart).mean(axis, keepdims=keepdims)


def _std(a: Value, axis: Axes | None = None, *, keepdims: bool = False) -> Value:
    made: Value = calls.apply(ops.Sqrt, _var(a, axis, keepdims=keepdims))
    return made


def _full_like(a: Value, fill_value: float) -> Value:
    return a.graph.fill_value_constant(value=fill_value, sizes=a.shape, dtype=a.dtype)


def _transpose(a: Value, axes: Sequence[int] | None = None) -> Value:
    return a.transpose(*(axes or ()))


def _squeeze(a: Value, axis: Axes | None = None) -> Value:
    return a.squeeze(*(() if axis is None else (axis,)))


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("max", "amax"), lambda a, *given, **keywords: a.max(*given, **keywords)),
    **dict.fromkeys(("min", "amin"), lambda a, *given, **keywords: a.min(*given, **keywords)),
    "sum": lambda a, *given, **keywords: a.sum(*given, **keywords),
    "mean": lambda a, *given, **keywords: a.mean(*given, **keywords),
    "var": _var,
    "std": _std,
    "argmax": _place_of(lambda: ops.Argmax),
    "argmin": _place_of(lambda: ops.Argmin),
    "concatenate": _concatenate,
    "stack": _stack,
    "split": _split,
    "where": _where,
    "clip": _clip,
    "dot": _dot,
    "reshape": lambda a, shape: a.reshape(shape),
    "ravel": lambda a: a.reshape(-1),
    "transpose": _transpose,
    "squeeze": _squeeze,
    "swapaxes": lambda a, axis1, axis2: a.swapaxes(axis1, axis2),
    "expand_dims": lambda a, axis: a.expand_dims(axis),
    "broadcast_to": lambda array, shape: array.broadcast_to(shape),
    "full_like": _full_like,
    "zeros_like": lambda a: _full_like(a, 0),
    "ones_like": lambda a: _full_like(a, 1),
    "shape": lambda a: a.shape,
    "ndim": lambda a: a.rank,
    "size": lambda a: math.prod(a.sizes),
}
