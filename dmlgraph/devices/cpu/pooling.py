"""Quantized pooling and gradients, one dimension after another: rows first, then the columns of the result.

So a window of 3 × 3 costs 3 + 3 passes instead of 9, and no padding is written: a pass covers the windows in which a
tap lies inside the tensor.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from dmlgraph.operators.common.scales import along, centred, clamp_steps
from dmlgraph.operators.common.windows import Sizes, Windows
from dmlgraph.operators.declaration.operator import Array
from dmlgraph.tensor import DataType

from .single import UnfitError, single

_BLOCK = 1 << 18  # elements of a tensor that are pooled together: they and their results fit into the cache


def max_pooling_grad(operator: Any, x: Array, gradient: Array) -> tuple[Array, ...]:
    _, indices = maxima(x, operator.window)
    total = np.zeros(x.size, x.dtype)
    inside = indices.ravel() >= 0  # a window of nothing but padding has no maximum
    np.add.at(total, indices.ravel()[inside], gradient.ravel()[inside])
    return (total.reshape(x.shape),)


def _least(x: Array) -> Any:
    """The initial value of a maximum: the least finite number."""
    return np.finfo(x.dtype).min if x.dtype.kind == "f" else np.iinfo(x.dtype).min


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
