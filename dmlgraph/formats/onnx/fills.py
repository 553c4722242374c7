"""Sources without data: fills, sequences and diagonal matrices."""

from __future__ import annotations

import math

import numpy as np
import onnx

from dmlgraph.formats.onnx.export.emitter import INT64, DType, Emitter, Symbol
from dmlgraph.formats.onnx.node import Node, numbered_dtype
from dmlgraph.formats.onnx.refusals import Refusal
from dmlgraph.formats.onnx.table import exports, imports
from dmlgraph.formats.onnx.tensors import Array, Calls, Tensor, repeated, stored
from dmlgraph.graph.value import Value
from dmlgraph.operators.fill import FillValueSequence

_OF_RANGE = ("int16", "int32", "int64", "float32", "float64")  # types of ONNX's Range


@imports(since=9, how="fill_value_constant")
def ConstantOfShape(node: Node, input: Tensor, *, value: Array | None = None) -> Array:
    number = np.zeros(1, np.float32) if value is None else value
    shape = node.ints("shape", input, [])
    if min(shape, default=0) < 0:
        raise Refusal("a size is negative", code="range", got=shape)
    return repeated(number.astype(node.dtype_of(number.dtype)).reshape(()), shape)


MOST_COUNTED = 1 << 24  # elements of a sequence


@exports("fill_value_constant", how="ConstantOfShape")
def _fill(node: Emitter) -> Symbol:
    return filled(node, node.field("value").value, node.output.sizes, node.dtype)


def filled(node: Emitter, value: object, sizes: tuple[int, ...], dtype: DType) -> Symbol:
    """A tensor of one number."""
    number = onnx.numpy_helper.from_array(np.asarray([value], dtype), "value")
    return node.call("ConstantOfShape", node.ints(sizes), dtype=dtype, value=number)


@imports(since=11, how="fill_value_sequence")
def Range(node: Node, start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
    first, end, step = (node.scalar(each) for each in (start, limit, delta))
    if step == 0:
        raise Refusal("the step must not be 0", code="range", field="delta")
    count = max(0, math.ceil((end - first) / step))
    if count > MOST_COUNTED:
        raise Refusal("the sequence is too long", code="too-large", got=count, allowed=f"{MOST_COUNTED} elements")
    dtype = start.dtype
    known = (first + np.arange(count) * step).astype(dtype)

    def make(calls: Calls) -> Value:
        return calls.fill_value_sequence(sizes=[count], dtype=stored(dtype), value_start=first, value_delta=step)

    return Tensor(dtype, (count,), known, make=make)


@exports("fill_value_sequence", how="Range; where its numbers would differ a constant")
def _sequence(node: Emitter) -> Symbol:
    operator = node.operator
    assert isinstance(operator, FillValueSequence)
    sizes, dtype = node.output.sizes, node.dtype
    (values,) = operator.evaluate()
    start, delta = operator.value_start.value, operator.value_delta.value
    if not _is_range(values.ravel(), start, delta):
        return node.constant(values)
    limit = np.asarray(start + delta * dtype.type(values.size), dtype)
    steps = node.call("Range", node.number(start, dtype), node.number(limit, dtype), node.number(delta, dtype))
    return node.reshape(steps, sizes, (values.size,))


def _is_range(values: Array, start: np.generic, delta: np.generic) -> bool:
    """Whether ONNX's Range gives these numbers, by products and by sums: whole numbers that are exact."""
    if str(values.dtype) not in _OF_RANGE or delta == 0 or not np.isfinite([start, delta]).all():
        return False
    first, step, count = float(start), float(delta), values.size
    ends = [first, step, first + step * count]
    whole = all(each == int(each) for each in ends) and max(map(abs, ends)) < _exact(values.dtype)
    return whole and bool((values.astype(np.float64) == first + step * np.arange(count)).all())


def _exact(dtype: np.dtype[np.generic]) -> float:
    """The number below which whole numbers, and their sums, are in the type."""
    if dtype.kind == "f":
        return float(2 ** (np.finfo(dtype.name).nmant + 1))
    return float(min(np.iinfo(dtype.name).max, 2**53))


@exports("diagonal_matrix", how="Range, Sub, Equal, Where")
def _diagonal(node: Emitter) -> Symbol:
    from dmlgraph.operators.common.numerics import cut

    offset = node.number(node.field("offset"), INT64)
    on = node.call("Equal", _diagonals(node), offset)
    value = cut(node.field("value"), node.output.dtype)
    made = node.call("Where", on, node.number(value, node.dtype), node.number(0, node.dtype))
    return node.expand(made, node.output.sizes, node.output.sizes[-2:])


@exports("diagonal_matrix1", how="Range, Sub, GreaterOrEqual, Less, Where")
def _diagonal1(node: Emitter) -> Symbol:
    begin, end = node.field("diagonal_fill_begin"), node.field("diagonal_fill_end")
    number = _diagonals(node)
    after = number >= node.number(begin, INT64)
    before = number < node.number(end, INT64)
    inside = node.call("And" if begin <= end else "Or", after, before)
    rest, sizes = node.get("input"), node.output.sizes
    zero = node.number(0, node.dtype)
    value = node.number(node.field("value").value, node.dtype)
    made = node.call("Where", inside, value, zero if rest is None else rest)
    return node.expand(made, sizes, sizes if rest is not None else sizes[-2:])


def _diagonals(node: Emitter) -> Symbol:
    """The number of each element's diagonal, {rows, columns}: 0 for the main one, positive above it."""
    rows, columns = node.output.sizes[-2:]
    zero, one = node.number(0, INT64), node.number(1, INT64)
    down, across = (node.call("Range", zero, node.number(size, INT64), one) for size in (rows, columns))
    return across - node.reshape(down, (rows, 1))


@imports(since=9, how="diagonal_matrix")
def EyeLike(node: Node, input: Tensor, *, dtype: int | None = None, k: int = 0) -> Tensor:
    to = node.dtype_of(input.dtype if dtype is None else numbered_dtype("dtype", dtype))
    made = node.diagonal_matrix(sizes=input.shape, dtype=stored(to), offset=k, value=1)
    return Tensor(to, input.shape, made=made)
