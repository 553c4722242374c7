"""Convolutions of few outputs with windows nearly as large as the picture, as those that give a filter's gradient.

Tiles of windows would be nearly empty.  So each place of a window is a product of matrices, over all channels and taps:

    output[n, o, place] = Σ over channels and taps of windows[place, n, channel and tap] · filters[o, channel and tap]

The windows of a place are copied side by side.  Where pictures are so large that their borders hardly count, no copy is
needed: taps that are side by side lie so in memory too, and the windows of a place are the pictures, read from another
element on.  Filters as wide as the pictures, with zeros, then meet each row's next elements.  (Zeros times infinity are
NaN: where a picture is infinite, more results than its own are NaN.)
"""

from __future__ import annotations

import math

from dmlgraph._native import cpu_steps
from dmlgraph.base.tensor import DataType, TensorDesc, packed_strides
from dmlgraph.devices.cpu.movement import surrounded
from dmlgraph.devices.cpu.nodes import AffineMap, Part, View
from dmlgraph.devices.cpu.parts import Parts, Tensor
from dmlgraph.operators.convolution import Convolution
from dmlgraph.operators.directml_enums import ConvolutionDirection, ConvolutionMode

_SINGLE = DataType.FLOAT32
# With fewer taps, tiles of windows are as fast, unless there are many pictures with few places each.
_LEAST_TAPS = 64
_MOST_PLACES = 64
_MANY_PICTURES = 16
_MOST_WIDENED = 1.2  # times the taps are multiplied with pictures in place of copies
_OUTER = 2  # batch and channels come before the spatial dimensions
_GEMM_RANK = 4


def with_large_windows(operator: Convolution) -> tuple[Part, ...] | None:
    """The parts; None for other convolutions."""
    if not _has_large_windows(operator):
        return None
    parts, window, output = Parts(operator), operator.window, operator.output
    x, filters = parts.input("input"), parts.input("filter")
    sizes = (*x.desc.sizes[:_OUTER], *window.padded(x.desc.sizes[_OUTER:]))
    pictures = _within(x, window.start, sizes)
    if _may_shift(operator, sizes):
        windows = _shifted(pictures, operator)
        filters = _within(filters, (0,) * len(window.taps), (*filters.desc.sizes[:_OUTER], *sizes[_OUTER:]))
    else:
        windows = _copied(pictures, operator)
    places, depth, columns = windows.desc.sizes[:2], windows.desc.sizes[-1], filters.desc.sizes[0]
    filters = filters.packed()
    row = math.prod(filters.desc.sizes[1:])
    lines = TensorDesc(dtype=filters.dtype, sizes=(*places, columns, depth), strides=(0, 0, row, 1))
    product = parts.step(
        cpu_steps.Gemm(transposes_a=False, transposes_b=True),
        windows,
        filters.as_desc(lines),
        output=TensorDesc(dtype=_SINGLE, sizes=(*places, output.sizes[0], columns)),
    )
    # The places come first in the product, and last in the output.
    one = output.sizes[0] * columns
    strides = (columns, 1, *(one * each for each in packed_strides(output.sizes[_OUTER:])))
    result = product.as_desc(TensorDesc(dtype=_SINGLE, sizes=output.sizes, strides=strides))
    return parts.store(result.convert(output.dtype), output).finish()


def _has_large_windows(operator: Convolution) -> bool:
    places, taps = math.prod(operator.output.sizes[_OUTER:]), math.prod(operator.window.taps)
    return (
        operator.direction is ConvolutionDirection.FORWARD
        and operator.mode is ConvolutionMode.CROSS_CORRELATION
        and operator.group_count == 1
        and operator.bias is None
        and operator.fused_activation is None
        and places <= _MOST_PLACES
        and (taps >= _LEAST_TAPS or (taps > places and operator.output.sizes[0] >= _MANY_PICTURES))
    )


def _may_shift(operator: Convolution, sizes: tuple[int, ...]) -> bool:
    """Whether pictures of these sizes are read from another element on for each place."""
    window = operator.window
    return (
        all(each == 1 for each in window.dilations)
        and len(window.taps) + _OUTER <= _GEMM_RANK
        and math.prod(sizes[_OUTER:]) <= _MOST_WIDENED * math.prod(window.taps)
    )


def _within(x: Tensor, start: tuple[int, ...], sizes: tuple[int, ...]) -> Tensor:
    """The tensor, packed, with zeros around it."""
    if x.desc.sizes == sizes:
        return x.packed()
    zeros = surrounded((0, 0, *start), x.desc.sizes, sizes, bytes(x.dtype.bits // 8))
    return x.parts.add(zeros, [x], TensorDesc(dtype=x.dtype, sizes=sizes))


def _shifted(pictures: Tensor, operator: Convolution) -> Tensor:
    """The pictures from the first tap of each place's windows to the last one: {places down, across, N, depth}."""
    batch, channels, *spatial = pictures.desc.sizes
    steps, window = packed_strides(spatial), operator.window
    picture = math.prod(spatial)
    lines = pictures.as_desc(TensorDesc(dtype=pictures.dtype, sizes=(batch, channels * picture)))
    depth = (channels - 1) * picture + 1 + sum((taps - 1) * step for taps, step in zip(window.taps, steps, strict=True))
    moves = [stride * step for stride, step in zip(window.strides, steps, strict=True)]
    missing, places = (0,) * (2 - len(moves)), operator.output.sizes[_OUTER:]
    at = AffineMap((1, 1, 0, 1), (*missing, *moves, 1, 1), (0, 0))
    sizes = (*(1 for _ in missing), *places, batch, depth)
    return pictures.parts.add(View((at,)), [lines], TensorDesc(dtype=pictures.dtype, sizes=sizes))


def _copied(pictures: Tensor, operator: Convolution) -> Tensor:
    """The windows of each place side by side: {1, places, N, channels · taps}."""
    window, places = operator.window, operator.output.sizes[_OUTER:]
    batch, channels, *_ = pictures.desc.sizes
    spatial = tuple(range(_OUTER, pictures.desc.rank))
    at = AffineMap((*spatial, 0, 1, *spatial), (*window.strides, 1, 1, *window.dilations), (0,) * pictures.desc.rank)
    desc = TensorDesc(dtype=pictures.dtype, sizes=(*places, batch, channels, *window.taps))
    copied = pictures.parts.add(View((at,)), [pictures], desc).copy(desc)
    sizes = (1, math.prod(places), batch, channels * math.prod(window.taps))
    return copied.as_desc(TensorDesc(dtype=pictures.dtype, sizes=sizes))
