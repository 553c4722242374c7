"""Sources without data: fills, sequences, diagonal matrices and random numbers.

Random numbers are made of Philox's bits, so they have ONNX's distributions and not the numbers of other programs.

The state is a constant, from the node's seed: every run gives the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx

from dmlgraph.formats.onnx.element_wise import cast
from dmlgraph.formats.onnx.export.emitter import INT64, DType, Emitter, Symbol
from dmlgraph.formats.onnx.node import Maybe, Node, numbered_dtype
from dmlgraph.formats.onnx.refusals import Refusal
from dmlgraph.formats.onnx.shapes import sliced
from dmlgraph.formats.onnx.table import exports, imports
from dmlgraph.formats.onnx.tensors import BOOL, Array, Calls, Tensor, repeated, stored
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


MOST_APART = float(np.finfo(np.float32).max)  # bounds of a range
BITS = 24  # of a random number: as many as float32 holds


def _uniform(node: Node, count: int, seed: float | None) -> Value:
    """Numbers of float32 from 0 on and below 1, {1, 1, 1, count}."""
    key = [node.fingerprint, 0] if seed is None else [int(np.float32(seed).view(np.uint32)), 0]
    state = Tensor.of(np.array([0, 0, 0, 0, *key], np.uint32).reshape(1, 1, 1, -1))
    bits = node.random_generator(state, sizes=[1, 1, 1, count], output_state=False)
    whole = node.converted(node.bit_shift_right(bits, 32 - BITS), "float32")
    return node.multiply(whole, 2.0**-BITS)


def _type(node: Node, dtype: int | None, default: np.dtype[Any]) -> np.dtype[Any]:
    """The type that the attribute `dtype` names, if it is given."""
    return node.dtype_of(default if dtype is None else numbered_dtype("dtype", dtype))


def _form(
    node: Node, like: Maybe, *, shape: Sequence[int] = (), dtype: int | None = None
) -> tuple[Sequence[int], np.dtype[Any]]:
    """The shape and type of random numbers: as the attributes say, or as those of another tensor."""
    shape = shape if like is None else like.shape
    of = _type(node, dtype, np.dtype(np.float32) if like is None else like.dtype)
    if not Tensor(of, ()).is_float:
        raise Refusal("random numbers are floats", code="dtype", field="dtype", got=str(of))
    if min(shape, default=1) < 1:
        raise Refusal("a tensor without elements has no counterpart", code="empty-tensor", got=[*shape])
    return shape, of


@imports("RandomUniform", "RandomUniformLike", how="random_generator, bit_shift_right, cast, multiply, add, clip")
def random_uniform(
    node: Node, input: Maybe = None, *, low: float = 0.0, high: float = 1.0, seed: float | None = None, **form: Any
) -> Tensor:
    """From `low` on and below `high`, where rounding would reach it."""
    shape, dtype = _form(node, input, **form)
    _check_finite(low=low, high=high)
    if not low <= high <= low + MOST_APART:
        allowed = f"{low} to {low + MOST_APART}"
        raise Refusal("must be at least low", code="range", field="high", got=high, allowed=allowed)
    made = node.add(node.multiply(_uniform(node, math.prod(shape), seed), high - low), low)
    narrow = np.dtype(np.float16 if dtype == np.float16 else np.float32)  # DirectML has no CLIP of float64
    last = np.nextafter(np.asarray(high, narrow), np.asarray(low, narrow)).item()
    made = node.clip(node.converted(made, stored(narrow)), min=min(low, last), max=last)
    return node.tensor(node.converted(made, stored(dtype)), shape)


@imports("RandomNormal", "RandomNormalLike", how="random_generator, cast, log, sqrt, cos, multiply, add")
def random_normal(
    node: Node, input: Maybe = None, *, mean: float = 0.0, scale: float = 1.0, seed: float | None = None, **form: Any
) -> Tensor:
    """By Box and Muller: √(−2 ln u) · cos 2πv."""
    shape, dtype = _form(node, input, **form)
    _check_finite(mean=mean, scale=scale)
    count = math.prod(shape)
    u, v = node.split(_uniform(node, 2 * count, seed), axis=3, outputs=[count] * 2)
    from_one = node.add(node.multiply(u, -1), 1)  # 1 − u: its logarithm is finite
    distance = node.sqrt(node.multiply(node.log(from_one), -2))
    made = node.multiply(distance, node.cos(node.multiply(v, 2 * math.pi)))
    made = node.add(node.multiply(made, scale), mean)
    return node.tensor(node.converted(made, stored(dtype)), shape)


def _check_finite(**numbers: float) -> None:
    for name, number in numbers.items():
        if not math.isfinite(number):
            raise Refusal("must be finite", code="range", field=name, got=number)


@imports(since=15, how="random_generator, logical_less_than, cast")
def Bernoulli(node: Node, input: Tensor, *, dtype: int | None = None, seed: float | None = None) -> Tensor:
    """1 with the probability that the input gives; ONNX's definition by other operators has 0 and 1 exchanged."""
    drawn = node.reshaped(_uniform(node, input.count, seed), input.sizes)
    made = node.logical_less_than(drawn, node.converted(input, "float32"), dtype="uint8")
    return cast(node, Tensor(BOOL, input.shape, made=made), _type(node, dtype, input.dtype))


@imports(since=7, how="random_generator, exp, cumulative_summation, logical_less_than_or_equal, reduce")
def Multinomial(
    node: Node, input: Tensor, *, dtype: int | None = None, sample_size: int = 1, seed: float | None = None
) -> Tensor:
    """Input {batch, classes}, logarithms of weights; the class in whose part of the weights' sum a number lies."""
    if input.rank != 2 or sample_size < 1:
        raise Refusal("needs {batch, classes}, and a positive number of samples", code="rank", got=[*input.shape])
    batch, classes = input.shape
    wide = node.converted(input, "float32")
    weights = node.exp(node.subtract(wide, node.reduce(wide, function="max", axes=[1])))
    sums = node.tensor(node.cumulative_summation(weights, axis=1))
    total = node.reshaped(sliced(node, sums, [slice(None), slice(classes - 1, None)]), (batch, 1, 1))
    places = node.multiply(node.reshaped(_uniform(node, batch * sample_size, seed), (batch, sample_size, 1)), total)
    before = node.logical_less_than_or_equal(node.reshaped(sums, (batch, 1, classes)), places, dtype="uint8")
    counted = node.reduce(node.converted(before, "uint32"), function="sum", axes=[2])
    to = stored(_type(node, dtype, np.dtype(np.int32)))
    return node.tensor(node.converted(counted, to), (batch, sample_size))
