"""Functions of NumPy and PyTorch as a few of DirectML's operators; each says which.

    y = dg.layer_norm(dg.linear(x, w, b), gain, bias)
    attended = dg.scaled_dot_product_attention(q, k, v, is_causal=True)
    h = np.exp(-x).sum(axis=1)
    h = np.concatenate([np.where(x > 0, x, 0), y], axis=1)

Values are DirectML's: nothing is converted, a tensor has at least one dimension, and sums of nothing do not exist.
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dmlgraph import operators as ops
from dmlgraph.base.errors import GraphError, OperatorError
from dmlgraph.base.tensor import DataType
from dmlgraph.graph import calls
from dmlgraph.graph.hinted import hinting
from dmlgraph.operators.catalog.foreign_names import entries, plain
from dmlgraph.operators.catalog.registry import REGISTRY, full_name

if TYPE_CHECKING:
    from dmlgraph.graph.value import Operand, Value

Axes = int | Sequence[int]
Tensor: TypeAlias = "Value | np.ndarray[Any, Any]"


@hinting
def softmax(x: Value, axis: Axes = -1, *, name: str | None = None) -> Value:
    """e^x / Σ e^x along an axis, or along several together: `activation_softmax1`."""
    result: Value = calls.apply(ops.ActivationSoftmax1, x, axes=axis, name=name)
    return result


@hinting
def layer_norm(
    x: Value,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    axes: Axes = -1,
    epsilon: float = 1e-5,
    name: str | None = None,
) -> Value:
    """(x − mean) / √(variance + epsilon) · weight + bias over some axes: `mean_variance_normalization1`.

    Args:
        x: floats.
        weight: with the sizes of x along `axes`, which are the last ones then.
        bias: likewise.
        axes: by default the last one.
        epsilon: added to the variance.
        name: of the node.

    Raises:
        OperatorError: the weight or the bias has other sizes.
    """
    several = sorted(axis % x.rank for axis in ([axes] if isinstance(axes, int) else axes))
    kept = x.rank - len(several)
    wanted = list(x.sizes[kept:])
    tensors: dict[str, Tensor] = {}
    for field, given in (("scale", weight), ("bias", bias)):
        if given is None:
            continue
        if list(given.shape) != wanted or several != list(range(kept, x.rank)):
            message = "must have the sizes of x along the axes, which must be the last ones"
            allowed = f"{wanted} along the axes {list(range(kept, x.rank))}"
            raise OperatorError(message, code="sizes", node=name, field=field, got=[*given.shape], allowed=allowed)
        tensors[field] = given.reshape((*(1 for _ in range(kept)), *given.shape))
    result: Value = calls.apply(
        ops.MeanVarianceNormalization1, x, **tensors, axes=several, normalize_variance=True, epsilon=epsilon, name=name
    )
    return result


@hinting
def linear(x: Value, weight: Tensor, bias: Tensor | None = None, *, name: str | None = None) -> Value:
    """x · weightᵀ + bias, for the last dimension of x: `gemm`, between views where x has not two dimensions.

    Args:
        x: {…, inputs}.
        weight: {outputs, inputs}.
        bias: {outputs}.
        name: of the last node.

    Raises:
        OperatorError: the weight has another number of dimensions, or sizes do not fit.
    """
    if len(weight.shape) != 2:
        message = "must have two dimensions, the outputs and the inputs"
        raise OperatorError(message, code="rank", node=name, field="weight", got=[*weight.shape])
    *batch, inputs = x.shape
    rows = x if x.rank == 2 else x.reshape(-1, inputs)
    tensors: dict[str, Tensor] = {} if bias is None else {"c": bias.reshape(1, -1)}
    last = name if x.rank == 2 else None
    result: Value = calls.apply(ops.Gemm, rows, weight, **tensors, trans_b="transpose", name=last)
    return result if x.rank == 2 else result.reshape(*batch, weight.shape[0], name=name)


@hinting
def embedding(table: Value, ids: Value, *, name: str | None = None) -> Value:
    """The rows of a table at some indices: `gather`, between views.

    Args:
        table: {rows, numbers}.
        ids: integers of any sizes.
        name: of the last node.

    Returns:
        {…, numbers}, behind the sizes of the indices.

    Raises:
        OperatorError: the table has another number of dimensions, or the indices are no integers.
    """
    if table.rank != 2:
        message = "must have two dimensions, the rows and their numbers"
        raise OperatorError(message, code="rank", node=name, field="table", got=[*table.sizes])
    rows = calls.apply(ops.Gather, table, ids.reshape(1, -1), axis=0, index_dimensions=1)
    return rows.reshape(*ids.shape, table.shape[1], name=name)


@hinting
def scaled_dot_product_attention(
    query: Value,
    key: Value,
    value: Value,
    mask: Value | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    name: str | None = None,
) -> Value:
    """softmax(query · keyᵀ · scale + mask) · value: `gemm`, `activation_softmax1` and `gemm`.

    A row of which nothing may be attended to gets the average of all values.

    Args:
        query: floats {…, rows, depth}.
        key: {…, keys, depth}.
        value: {…, keys, numbers}.
        mask: what broadcasts to the scores {…, rows, keys}: floats are added (`add`); of uint8, only keys with another
            number than 0 are attended to (`if`).
        is_causal: whether a row attends to the keys up to its own place only: two `fill_value_sequence`, compared.
        scale: by default 1 / √depth.
        name: of the last node.

    Raises:
        OperatorError: sizes or data types do not fit one another.
    """
    depth = query.shape[-1]
    alpha = getattr(depth, "expression", depth) ** -0.5 if scale is None else scale
    scores: Value = calls.apply(ops.Gemm, query, key, trans_b="transpose", alpha=alpha)
    if is_causal:
        allowed = _places(scores, -1) <= _places(scores, -2)
        scores = _only(scores, allowed)
    if mask is not None:
        scores = _only(scores, mask != 0) if mask.dtype is DataType.UINT8 else scores + mask
    result: Value = calls.apply(ops.Gemm, softmax(scores), value, name=name)
    return result


def _places(scores: Value, axis: int) -> Value:
    """0, 1, 2, … along an axis of scores, with size 1 elsewhere."""
    sizes = [1] * scores.rank
    sizes[axis] = scores.shape[axis]
    return scores.graph.fill_value_sequence(sizes=sizes, dtype="uint32", value_start=0, value_delta=1)


def _only(scores: Value, allowed: Value) -> Value:
    """The scores, and the lowest number where something is not allowed."""
    lowest = float(np.finfo(scores.dtype.numpy).min)
    result: Value = calls.apply(ops.If, allowed, scores, lowest)
    return result


# What the methods of values are made of.


def reduced(x: Value, function: str, axis: Axes | None, keepdims: bool, name: str | None) -> Value:
    """`reduce` over axes, by default all; without them, unless `keepdims`: of all, one number is left, sizes [1]."""
    chosen = {} if axis is None else {"axes": axis}
    whole: Value = calls.apply(ops.Reduce, x, function=function, name=name if keepdims else None, **chosen)
    if keepdims:
        return whole
    several = range(x.rank) if axis is None else [axis] if isinstance(axis, int) else axis
    if len(several) == x.rank:
        return whole.reshape(1, name=name)
    return whole.squeeze(*several, name=name)


def swapped(x: Value, one: int, other: int, name: str | None) -> Value:
    """Two dimensions in the place of one another: `transpose`.

    Raises:
        GraphError: one of them does not exist.
    """
    for axis in (one, other):
        if not -x.rank <= axis < x.rank:
            allowed = f"{-x.rank} to {x.rank - 1}"
            raise GraphError("is not an axis of the tensor", code="range", field="axis", got=axis, allowed=allowed)
    order = list(range(x.rank))
    order[one], order[other] = order[other], order[one]
    return x.transpose(*order, name=name)


# NumPy's functions of elements that have not the name of an operator, nor another one for it in `foreign_names`.
_UFUNCS: dict[str, Callable[..., Any]] = {
    "positive": lambda x: x,
    "square": lambda x: x * x,
    "not_equal": lambda a, b: a != b,
    "exp2": lambda x: calls.apply(ops.Pow, 2, x),
    "matmul": lambda a, b: calls.apply(ops.Gemm, a, b),
}


def universal(ufunc: np.ufunc, method: str, inputs: Sequence[Operand], given: dict[str, Any]) -> Any:
    """What a function of NumPy, such as `np.exp`, makes of values: the operator that computes it.

    Raises:
        OperatorError: no operator does, or it is used in another way than as a function of its tensors.
    """
    name = ufunc.__name__
    made = _UFUNCS.get(name)
    if made is None:
        entry = entries().get(plain(name))
        own = full_name(name) or (entry.operator if entry is not None and not entry.fields else "")
        made = (lambda *tensors: calls.apply(REGISTRY[own], *tensors)) if own else None
    if made is None or method != "__call__" or given:
        what = f"np.{name}" if method == "__call__" else f"np.{name}.{method}"
        more = f" with {', '.join(given)}" if given else ""
        message = f"no operator computes {what}{more} of values of a graph"
        raise OperatorError(message, code="unknown-operator", node=name)
    return made(*inputs)


# Other functions of NumPy.  Without them it would take a value for an object, and return an array of objects.


def function_of_values(function: Any, given: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """What a function of NumPy makes of values.

    Raises:
        OperatorError: no operators say the same, or it is given something else than they take.
    """
    name = function.__name__
    called = f"{function.__module__.replace('numpy', 'np')}.{name}"
    made = _FUNCTIONS.get(function)
    if made is None:
        from dmlgraph.operators.catalog.hints import attribute_hint

        message, hint = f"no operators compute {called} of values of a graph", attribute_hint(name, ())
        raise OperatorError(message, code="unknown-operator", node=name, hint=hint)
    signature = inspect.signature(made)
    try:
        signature.bind(*given, **keywords)
    except TypeError as error:
        message, taken = f"{called} of values of a graph: {error}", ", ".join(signature.parameters)
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


_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    **dict.fromkeys((np.max, np.amax), lambda a, *given, **keywords: a.max(*given, **keywords)),
    **dict.fromkeys((np.min, np.amin), lambda a, *given, **keywords: a.min(*given, **keywords)),
    np.sum: lambda a, *given, **keywords: a.sum(*given, **keywords),
    np.mean: lambda a, *given, **keywords: a.mean(*given, **keywords),
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
    np.reshape: lambda a, shape: a.reshape(shape),
    np.ravel: lambda a: a.reshape(-1),
    np.transpose: _transpose,
    np.squeeze: _squeeze,
    np.swapaxes: lambda a, axis1, axis2: a.swapaxes(axis1, axis2),
    np.expand_dims: lambda a, axis: a.expand_dims(axis),
    np.broadcast_to: lambda array, shape: array.broadcast_to(shape),
    np.full_like: _full_like,
    np.zeros_like: lambda a: _full_like(a, 0),
    np.ones_like: lambda a: _full_like(a, 1),
    np.shape: lambda a: a.shape,
    np.ndim: lambda a: a.rank,
    np.size: lambda a: math.prod(a.sizes),
}
