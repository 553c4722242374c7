"""Pooling, one dimension after another: along the rows first, then along the columns of the result.

So a window of 3 × 3 costs 3 + 3 passes instead of 9, and no padding is written: a pass covers the windows in which a
tap lies inside the tensor.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dmlgraph.operators.common.numerics import convert
from dmlgraph.operators.common.scales import along, centred
from dmlgraph.operators.common.windows import Sizes, Windows
from dmlgraph.operators.declaration.operator import Array
from dmlgraph.operators.pooling import or_infinite
from dmlgraph.tensor import DataType, TensorDesc

from .matrix import clamped
from .single import UnfitError, finite, single

_BLOCK = 1 << 18  # elements of a tensor that are pooled together: they and their results fit into the cache


def average_pooling(operator: Any, x: Array) -> tuple[Array, ...]:
    sums = finite(combined(np.add, single(x), operator.window, 0))
    return (_averages(sums, operator, x),)


def quantized_linear_average_pooling(
    operator: Any, x: Array, x_scale: Array, x_zero: Array | None, scale: Array, zero: Array | None
) -> tuple[Array, ...]:
    numbers = (centred(x, x_zero) * along(x_scale, 1, x.ndim)).astype(np.float32)
    # In float64, where sums of such numbers are exact: whether a mean is above or below a half decides the result.
    sums = combined(np.add, numbers.astype(np.float64), operator.window, 0)
    means = _averages(sums, operator, numbers)
    return (clamped(operator.steps(means, scale, zero), along(zero, 1, x.ndim), operator.output.dtype),)


def _averages(sums: Array, operator: Any, x: Array) -> Array:
    """The sums divided by the number of taps, in x's type, to which the sums are rounded first."""
    sums = sums.astype(x.dtype, copy=False)
    divisors = np.array(operator.window.tap_count)
    if not operator.include_padding:
        divisors = functools.reduce(np.multiply.outer, _inside_counts(operator.window, x.shape[2:]))
    sums /= divisors.astype(x.dtype)
    return sums


def _inside_counts(windows: Windows, sizes: Sizes) -> Iterator[Array]:
    """Along each dimension, how many taps of every window lie inside the tensor."""
    for dimension, (size, count) in enumerate(zip(sizes, windows.counts(sizes), strict=True)):
        inside = np.zeros(count, np.int64)
        for outputs, _ in _taps(windows, dimension, size):
            inside[outputs] += 1
        yield inside


def lp_pooling(operator: Any, x: Array) -> tuple[Array, ...]:
    powers = _POWERS.get(operator.p)
    if powers is None:
        sums = combined(np.add, np.abs(x.astype(np.float64)) ** operator.p, operator.window, 0)
        return ((sums.astype(x.dtype).astype(np.float64) ** (1 / operator.p)).astype(x.dtype),)
    power, root = powers
    # Powers are positive: a sum overflows here exactly where the reference's, rounded to the tensor's type, does.
    sums = single(combined(np.add, power(single(x)), operator.window, 0).astype(x.dtype, copy=False))
    return (root(sums).astype(x.dtype, copy=False),)


# p → the p-th power of a number's magnitude, and the p-th root.
_POWERS: dict[int, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    1: (np.abs, np.asarray),
    2: (np.square, np.sqrt),
}


def max_pooling(operator: Any, x: Array) -> tuple[Array, ...]:
    dtype = DataType.parse(x.dtype)
    asked: TensorDesc | None = operator.indices_desc
    if asked is None:
        if dtype.is_float and (x.view(f"i{x.itemsize}") == np.iinfo(f"i{x.itemsize}").min).any():
            # Of zeros of different signs the first counts; fmax returns either.
            return (maxima(x, operator.window)[0].astype(x.dtype, copy=False),)
        # NumPy has no fast float16 arithmetic; a maximum is the same number in float32.
        wide = single(x) if dtype.is_float else x
        greatest = combined(_greater(wide), wide, operator.window, _least(x))
        return (or_infinite(operator.window, x, _stored(greatest, operator.window, x)),)
    greatest, indices = maxima(x, operator.window)
    return _stored(greatest, operator.window, x), np.maximum(indices, 0).astype(asked.dtype.numpy)


def max_pooling_grad(operator: Any, x: Array, gradient: Array) -> tuple[Array, ...]:
    _, indices = maxima(x, operator.window)
    total = np.zeros(x.size, x.dtype)
    inside = indices.ravel() >= 0  # a window of nothing but padding has no maximum
    np.add.at(total, indices.ravel()[inside], gradient.ravel()[inside])
    return (total.reshape(x.shape),)


def _greater(x: Array) -> np.ufunc:
    return np.fmax if x.dtype.kind == "f" else np.maximum  # fmax ignores NaN


def _least(x: Array) -> Any:
    """The initial value of a maximum: the least finite number."""
    return np.finfo(x.dtype).min if x.dtype.kind == "f" else np.iinfo(x.dtype).min


def _stored(greatest: Array, windows: Windows, x: Array) -> Array:
    """The maxima in x's type.  A window of only padding gives the least 32-bit number, stored as `convert` does."""
    if x.dtype == np.int16:
        inside = functools.reduce(np.multiply.outer, _inside_counts(windows, x.shape[2:]))
        greatest = np.where(inside > 0, greatest, convert(np.array(np.iinfo(np.int32).min), DataType.INT16))
    return greatest.astype(x.dtype, copy=False)


def maxima(x: Array, windows: Windows) -> tuple[Array, Array]:
    """The greatest element of each window of x, and its row-major index in x.

    If several elements are equal, the first one's index; −1 for a window without elements.

    Each element becomes a 64-bit integer: the high half is its rank, the low half its distance from the end of its
    plane.  So the greatest integer gives both without a branch.

    Raises:
        UnfitError: x has 64-bit elements, or planes of more elements than 32 bits can count.
    """
    least, sizes = _least(x), x.shape[2:]
    plane = math.prod(sizes)
    if x.dtype.itemsize == 8 or plane > 0xFFFFFFFF:
        raise UnfitError
    if x.dtype.kind == "f":
        x = np.fmax(single(x), np.float32(least))
    keys = _ranks(x) << 32
    keys += np.arange(plane, 0, -1).reshape(sizes)
    start = np.iinfo(np.int64).min
    best = combined(np.maximum, keys, windows, start)
    planes = np.arange(1, math.prod(x.shape[:2]) + 1).reshape(*x.shape[:2], *(1,) * len(sizes)) * plane
    indices = np.where(best == start, -1, planes - (best & 0xFFFFFFFF))
    return np.where(indices < 0, least, x.ravel()[indices]), indices


def _ranks(x: Array) -> Array:
    """32-bit integers, as int64, that are ordered as x's elements are."""
    if x.dtype.kind != "f":
        return x.astype(np.int64) - (1 << 31 if x.dtype == np.uint32 else 0)
    bits = (single(x) + np.float32(0)).view(np.int32)  # −0.0 becomes 0.0, which it equals
    return (bits ^ ((bits >> 31) & 0x7FFFFFFF)).astype(np.int64)


def combined(function: np.ufunc, x: Array, windows: Windows, start: Any) -> Array:
    """Each window's elements inside x combined with `start`, {N, C, sizes…} → {N, C, counts…}."""
    plane = math.prod(x.shape[2:])
    rows, channels = x.shape[:2]
    if x.size <= _BLOCK:
        return _combined(function, x, windows, start)
    result = np.empty((rows, channels, *windows.counts(x.shape[2:])), x.dtype)
    length = max(1, _BLOCK // plane)
    for row in range(rows):
        for first in range(0, channels, length):
            part = (slice(row, row + 1), slice(first, first + length))
            result[part] = _combined(function, x[part], windows, start)
    return result


def _combined(function: np.ufunc, x: Array, windows: Windows, start: Any) -> Array:
    for dimension in range(x.ndim - 2):
        shape, axis = _shape(x, windows, dimension), dimension + 2
        result = np.full(shape, start, x.dtype)
        taps = list(_taps(windows, dimension, x.shape[axis]))
        if shape[axis] == 1 and taps:  # one window: its taps together
            inside = slice(taps[0][1].start, taps[-1][1].stop, windows.dilations[dimension])
            rows = function.reduce(x[(slice(None),) * axis + (inside,)], axis=axis, keepdims=True)
            function(result, rows, out=result)
            taps = []
        for outputs, inside in taps:
            view = result[(slice(None),) * axis + (outputs,)]
            function(view, x[(slice(None),) * axis + (inside,)], out=view)
        x = result
    return x


def _shape(x: Array, windows: Windows, dimension: int) -> Sizes:
    """x's sizes, with the number of windows as the size of one spatial dimension."""
    axis = dimension + 2
    return (*x.shape[:axis], windows.counts(x.shape[2:])[dimension], *x.shape[axis + 1 :])


def _taps(windows: Windows, dimension: int, size: int) -> Iterator[tuple[slice, slice]]:
    """For each tap along a dimension: the windows in which it is inside the tensor, and its elements in them."""
    stride, dilation = windows.strides[dimension], windows.dilations[dimension]
    extent = 1 + (windows.taps[dimension] - 1) * dilation
    count = (size + windows.start[dimension] + windows.end[dimension] - extent) // stride + 1
    for tap in range(windows.taps[dimension]):
        offset = tap * dilation - windows.start[dimension]
        first, last = max(0, -(offset // stride)), min(count - 1, (size - 1 - offset) // stride)
        if first <= last:
            start = first * stride + offset
            yield slice(first, last + 1), slice(start, start + (last - first) * stride + 1, stride)
