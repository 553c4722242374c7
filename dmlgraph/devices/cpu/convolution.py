"""Quantized convolutions as matrix products.

The windows are written side by side, block by block, and multiplied by the filter.

A block of windows fits into the cache, so an element's copies in all its windows cost little memory and no memory
traffic.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from dmlgraph.operators.common.scales import Quantized, along, of_quantized_pair
from dmlgraph.operators.common.windows import Sizes, Windows
from dmlgraph.operators.declaration.operator import Array

from .blas import multiply
from .matrix import centred, clamped
from .single import exact_type, single

_BLOCK = 1 << 19  # numbers in a block of windows: 2 MiB of float32

Box = tuple[range, ...]  # a range of windows along each dimension


def convolution_integer(
    operator: Any, x: Array, x_zero: Array | None, weights: Array, weights_zero: Array | None
) -> tuple[Array, ...]:
    sums = _correlate_centred(operator, x, x_zero, weights, weights_zero)
    # Converted through int64, so that a sum beyond 32 bits wraps.
    return ((sums if sums.dtype == np.float32 else sums.astype(np.int64)).astype(np.int32),)


@of_quantized_pair
def quantized_linear_convolution(
    operator: Any, x: Quantized, weights: Quantized, bias: Array | None, scale: Array, zero: Array | None
) -> tuple[Array, ...]:
    sums = _correlate_centred(operator, x.steps, x.zero_point, weights.steps, weights.zero_point)
    if bias is not None:
        sums = sums + bias.astype(np.float64)  # exact; it is rounded to float32 once
    rank = x.steps.ndim
    step = along(x.scale, 1, rank) * along(weights.scale, 1, rank) / along(scale, 1, rank)
    return (clamped(single(sums) * step, along(zero, 1, rank), operator.output.dtype),)


def _correlate_centred(
    operator: Any, x: Array, x_zero: Array | None, weights: Array, weights_zero: Array | None
) -> Array:
    """Sums of products of 8-bit integers minus their zero points: exact, in float32 if that is wide enough."""
    x = centred(x, None if x_zero is None else along(x_zero, 1, x.ndim))
    weights = centred(weights, None if weights_zero is None else along(weights_zero, 0, weights.ndim))
    sums = np.abs(weights).reshape(len(weights), -1).sum(1, dtype=np.float64)
    dtype = exact_type(np.abs(x).max() * sums.max())
    x, weights = (each.astype(dtype, copy=False) for each in (x, weights))
    return correlate(x, weights, operator.window, operator.group_count)


def correlate(x: Array, weights: Array, windows: Windows, groups: int) -> Array:
    """Each window's products with the filter, summed over taps and channels.

    x {N, IC, …} and weights {OC, IC / groups, taps…}, of one float type, give {N, OC, counts…}.
    """
    batch, channels, *sizes = x.shape
    counts = windows.counts(tuple(sizes))
    filters = weights.reshape(groups, weights.shape[0] // groups, -1)
    result = np.empty((batch, groups, filters.shape[1], math.prod(counts)), x.dtype)
    if windows.tap_count == 1 and counts == tuple(sizes) and not any(windows.start + windows.end):
        multiply(filters, x.reshape(batch, groups, -1, result.shape[-1]), out=result)
        return result.reshape(batch, -1, *counts)
    boxes = list(_boxes(counts, channels * windows.tap_count))
    memory = np.empty(max(map(_size, boxes)) * channels * windows.tap_count, x.dtype)
    for item in range(batch):
        padded = _padded(windows, x[item]).reshape(groups, channels // groups, *windows.padded(tuple(sizes)))
        for first, box in zip(_starts(boxes), boxes, strict=True):
            shape = (groups, channels // groups, windows.tap_count, *map(len, box))
            columns = memory[: math.prod(shape)].reshape(shape)
            for tap, elements in enumerate(_elements(windows, box)):
                columns[:, :, tap] = padded[elements]
            columns = columns.reshape(groups, -1, _size(box))
            multiply(filters, columns, out=result[item, ..., first : first + _size(box)])
    return result.reshape(batch, -1, *counts)


def _padded(windows: Windows, x: Array) -> Array:
    """x {C, sizes…} with zeros around it."""
    if not any(windows.start + windows.end):
        return x
    padded = np.zeros((len(x), *windows.padded(x.shape[1:])), x.dtype)
    spans = zip(windows.start, x.shape[1:], strict=True)
    inside: tuple[Any, ...] = tuple(slice(start, start + size) for start, size in spans)
    padded[:, *inside] = x
    return padded


def _boxes(counts: Sizes, numbers: int) -> Iterator[Box]:
    """The windows in row-major order, in boxes of at most `_BLOCK` numbers; a window has `numbers` of them.

    One dimension is split.  A box has one index of each dimension before it, and all of those after it, so the windows
    of a box are contiguous in row-major order.
    """
    split = 0
    while split < len(counts) - 1 and numbers * math.prod(counts[split + 1 :]) > _BLOCK:
        split += 1
    length = max(1, _BLOCK // (numbers * math.prod(counts[split + 1 :])))
    whole = [range(count) for count in counts[split + 1 :]]
    for front in itertools.product(*map(range, counts[:split])):
        for start in range(0, counts[split], length):
            part = range(start, min(start + length, counts[split]))
            yield (*(range(index, index + 1) for index in front), part, *whole)


def _starts(boxes: list[Box]) -> list[int]:
    """The row-major index of each box's first window."""
    return [0, *itertools.accumulate(map(_size, boxes[:-1]))]


def _size(box: Box) -> int:
    return math.prod(map(len, box))


def _elements(windows: Windows, box: Box) -> Iterator[Any]:
    """For each tap, in row-major order, the slices of a padded tensor that are this tap of the box's windows."""
    for tap in itertools.product(*map(range, windows.taps)):
        slices = []
        for index, dilation, stride, span in zip(tap, windows.dilations, windows.strides, box, strict=True):
            first = index * dilation + span.start * stride
            slices.append(slice(first, first + (len(span) - 1) * stride + 1, stride))
        yield (..., *slices)
