"""Functions of PyTorch, and methods of values, as a few of DirectML's operators; each says which.

    y = dg.layer_norm(dg.linear(x, w, b), gain, bias)
    attended = dg.scaled_dot_product_attention(q, k, v, is_causal=True)

Values are DirectML's: nothing is converted, a tensor has at least one dimension, and sums of nothing do not exist.
"""

from __future__ import annotations

import numbers
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dmlgraph import operators as ops
from dmlgraph.base.errors import GraphError, OperatorError
from dmlgraph.base.tensor import DataType, DataTypeLike
from dmlgraph.graph import calls
from dmlgraph.graph.hinted import hinting
from dmlgraph.graph.undone import undone

if TYPE_CHECKING:
    from dmlgraph.graph.value import Value

Axes = int | Sequence[int]
Tensor: TypeAlias = "Value | np.ndarray[Any, Any]"


@undone
@hinting
def softmax(x: Value, axis: Axes = -1, *, name: str | None = None) -> Value:
    """e^x / Σ e^x along an axis, or along several together: `activation_softmax1`."""
    result: Value = calls.apply(ops.ActivationSoftmax1, x, axes=axis, name=name)
    return result


@undone
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
    several = sorted(axis_of(x, axis, "axes") for axis in listed(axes))
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


@undone
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


@undone
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


@undone
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


@undone
def reduced(
    x: Value,
    function: object,
    axis: Axes | None,
    keepdims: bool,
    name: str | None,
    dtype: DataTypeLike | None = None,
) -> Value:
    """`reduce` over axes, by default all; without them, unless `keepdims`: of all, one number is left, sizes [1]."""
    chosen = {} if axis is None else {"axes": axis}
    whole: Value = calls.apply(
        ops.Reduce, converted(x, dtype), function=function, name=name if keepdims else None, **chosen
    )
    if keepdims:
        return whole
    several = range(x.rank) if axis is None else listed(axis)
    if len(several) == x.rank:
        return whole.reshape(1, name=name)
    return whole.squeeze(*several, name=name)


def converted(x: Value, dtype: DataTypeLike | None) -> Value:
    """A value of a data type, `cast`; the value itself, if that is its own, or None is given."""
    return x if dtype is None or DataType.parse(dtype) is x.dtype else x.astype(dtype)


@undone
def truth(x: Value, name: str | None) -> Value:
    """1 where an element is not 0, else 0."""
    result: Value = calls.apply(ops.LogicalNot, x == 0, name=name)
    return result


def swapped(x: Value, one: int, other: int, name: str | None) -> Value:
    """Two dimensions in the place of one another: `transpose`.

    Raises:
        GraphError: one of them does not exist.
    """
    order = list(range(x.rank))
    first, second = axis_of(x, one), axis_of(x, other)
    order[first], order[second] = second, first
    return x.transpose(*order, name=name)


@undone
def product(x1: Any, x2: Any) -> Value:
    """The product of matrices, `gemm`; a vector is a row on the left and a column on the right, as NumPy has it."""
    ends = [axis for axis, each in ((-2, x1), (-1, x2)) if len(getattr(each, "shape", ())) == 1]
    left, right = x1.reshape(1, -1) if -2 in ends else x1, x2.reshape(-1, 1) if -1 in ends else x2
    whole: Value = calls.apply(ops.Gemm, left, right)
    if not ends:
        return whole
    return whole.reshape(1) if whole.rank == len(ends) else whole.squeeze(*ends)


def listed(axes: Axes) -> Sequence[int]:
    """Axes, of which one number may stand for a list."""
    return [operator.index(axes)] if isinstance(axes, numbers.Integral) else axes  # type: ignore[return-value]


def axis_of(x: Value, axis: int, field: str = "axis") -> int:
    """An axis, counted from the first one.

    Raises:
        GraphError: the tensor has no such axis.
    """
    if not -x.rank <= axis < x.rank:
        allowed = f"{-x.rank} to {x.rank - 1}"
        raise GraphError("is not an axis of the tensor", code="range", field=field, got=axis, allowed=allowed)
    return axis % x.rank
