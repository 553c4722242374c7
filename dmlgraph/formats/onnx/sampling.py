"""GridSample and DeformConv: images read at places given or computed, by gathering the elements around each."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dmlgraph.formats.onnx.node import Maybe, Node, Result
from dmlgraph.formats.onnx.refusals import Refusal, one_of
from dmlgraph.formats.onnx.table import imports
from dmlgraph.formats.onnx.tensors import Tensor
from dmlgraph.formats.onnx.windows import Window
from dmlgraph.graph.value import Value

_MODES = {"bilinear": "linear", "linear": "linear", "nearest": "nearest", "bicubic": "cubic", "cubic": "cubic"}
_PADDINGS = ("zeros", "border", "reflection")
_CUBIC = -0.75


@imports(since=16, how="gather_elements and element-wise operators")
def GridSample(
    node: Node, X: Tensor, grid: Tensor, *, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: int = 0
) -> Result:
    one_of("mode", mode, _MODES)
    one_of("padding_mode", padding_mode, _PADDINGS)
    spatial, places = X.shape[2:], grid.shape[1:-1]
    if grid.shape[-1] != len(spatial) or X.rank + 1 > 8:
        raise Refusal("the grid needs a coordinate for each spatial dimension", code="sizes", got=list(grid.shape))
    aligned = bool(align_corners)
    count = math.prod(places)
    points = node.converted(node.reshaped(grid, (X.shape[0], count, len(spatial))), "float32")
    coordinates = node.split(points, axis=2, outputs=[1] * len(spatial)) if len(spatial) > 1 else [points]
    taps = []
    for axis, size in enumerate(spatial):  # the last coordinate belongs to the first dimension
        place = node.reshaped(coordinates[len(spatial) - 1 - axis], (X.shape[0], 1, count))
        taps.append(_taps(node, place, size, _MODES[mode], padding_mode, aligned))
    data = node.reshaped(X, (*X.shape[:2], math.prod(spatial)))
    return node.tensor(gathered(node, data, spatial, taps), (*X.shape[:2], *places))


Taps = list[tuple[Value, Value]]  # {N, 1, places}: the indices along a dimension, as floats, and their weights


def gathered(node: Node, data: Value, spatial: Sequence[int], taps: Sequence[Taps]) -> Value:
    """The samples {N, C, places} of images {N, C, elements}.

    Args:
        node: adds the nodes.
        data: the images, their dimensions as one.
        spatial: the sizes of these dimensions.
        taps: what counts for each place, by dimension.
    """
    batch, channels, _ = data.sizes
    total: Value | None = None
    for corner in itertools.product(*taps):
        index, weight = corner[0]
        for size, (next_index, next_weight) in zip(spatial[1:], corner[1:], strict=True):
            index = node.add(node.multiply(index, size), next_index)
            weight = node.multiply(weight, next_weight)
        where = node.expanded(node.converted(index, "int32"), (batch, channels, index.sizes[2]))
        term = node.multiply(node.gather_elements(data, where, axis=2), node.converted(weight, data.dtype))
        total = term if total is None else node.add(total, term)
    assert total is not None
    return total


def linear_taps(node: Node, at: Value, size: int) -> Taps:
    """The two elements beside each coordinate along a dimension; those outside count as zero."""
    first = node.floor(at)
    part = node.subtract(at, first)
    weights = {0: node.subtract(1, part), 1: part}
    return [_tap(node, node.add(first, each), weight, 0, size - 1, size, "zeros") for each, weight in weights.items()]


def _taps(node: Node, place: Value, size: int, mode: str, padding: str, aligned: bool) -> Taps:
    """The elements along one dimension that count for each place: their indices, as floats, and their weights."""
    if aligned:
        at, low, high = node.multiply(node.add(place, 1), (size - 1) / 2), 0.0, size - 1.0
    else:
        at, low, high = node.subtract(node.multiply(node.add(place, 1), size / 2), 0.5), -0.5, size - 0.5
    if mode == "nearest":
        at = node.round(at)
    if (mode, padding) != ("cubic", "border"):  # there each element is moved, not the place, as in PyTorch
        at = _inside(node, at, low, high, size, padding)
    if mode == "nearest":
        return [_tap(node, at, node.add(node.multiply(at, 0), 1), low, high, size, padding)]
    first = node.floor(at)
    part = node.subtract(at, first)
    if mode == "linear":
        weights = {0: node.subtract(1, part), 1: part}
    else:
        weights = {offset: _cubic(node, node.abs(node.subtract(part, offset)), offset) for offset in (-1, 0, 1, 2)}
    return [_tap(node, node.add(first, offset), weight, low, high, size, padding) for offset, weight in weights.items()]


def _tap(
    node: Node, index: Value, weight: Value, low: float, high: float, size: int, padding: str
) -> tuple[Value, Value]:
    """The element at an index, which may lie outside."""
    if padding == "zeros":
        inside = node.clip(index, min=0, max=size - 1)
        there = node.converted(node.logical_equals(index, inside, dtype="uint8"), "float32")
        return inside, node.multiply(weight, there)
    return node.clip(_inside(node, index, low, high, size, padding), min=0, max=size - 1), weight


def _inside(node: Node, at: Value, low: float, high: float, size: int, padding: str) -> Value:
    """Places outside moved to the border, or reflected there."""
    made = at
    if padding == "border":
        made = node.clip(at, min=0, max=size - 1)
    elif padding == "reflection" and high > low:
        span = high - low
        away = node.modulus_floor(node.abs(node.subtract(at, low)), 2 * span)
        made = node.subtract(high, node.abs(node.subtract(away, span)))
    return made


def _cubic(node: Node, away: Value, offset: int) -> Value:
    """The weight of an element that far away: from 0 to 1 for the two in the middle, from 1 to 2 for the others."""
    if offset in (0, 1):
        factors = (_CUBIC + 2, -(_CUBIC + 3), 0.0, 1.0)
    else:
        factors = (_CUBIC, -5 * _CUBIC, 8 * _CUBIC, -4 * _CUBIC)
    made = node.multiply(away, factors[0])
    for factor in factors[1:-1]:
        made = node.multiply(node.add(made, factor), away)
    return node.add(made, factors[-1])


@imports(since=19, how="gather_elements, gemm and element-wise operators")
def DeformConv(
    node: Node,
    X: Tensor,
    W: Tensor,
    offset: Tensor,
    B: Maybe = None,
    mask: Maybe = None,
    *,
    kernel_shape: list[int] | None = None,
    group: int = 1,
    offset_group: int = 1,
    **attributes: Any,
) -> Tensor:
    """Inputs: x {N, C, spatial…}, weights {M, C / group, kernel…}, offsets, bias {M}, mask.

    Offsets are {N, groups · taps · dimensions, output…}, masks {N, groups · taps, output…}, both of offset groups.
    """
    window = Window.of(X.shape[2:], kernel_shape or W.shape[2:], **attributes)
    batch, channels = X.shape[:2]
    taps, rank = math.prod(window.kernel), len(window.spatial)
    output = offset.shape[2:]
    places = math.prod(output)
    expected = (batch, offset_group * taps * rank)
    if offset.shape[:2] != expected or len(output) != rank or channels % offset_group or channels != W.shape[1] * group:
        message = "the offsets must hold a place for each tap of each group, in each dimension"
        raise Refusal(message, code="sizes", field="offset", got=list(offset.shape), allowed=str([*expected, "…"]))
    steps = [
        np.arange(count) * stride - before
        for count, stride, before in zip(output, window.strides, window.before, strict=True)
    ]
    kernel = [np.arange(size) * gap for size, gap in zip(window.kernel, window.dilations, strict=True)]
    regular = [
        (np.stack(np.meshgrid(*kernel, indexing="ij"), 0)[axis].reshape(taps, 1))
        + np.stack(np.meshgrid(*steps, indexing="ij"), 0)[axis].reshape(1, places)
        for axis in range(rank)
    ]
    split = node.reshaped(node.converted(offset, "float32"), (batch * offset_group, taps, rank, places))
    parts = node.split(split, axis=2, outputs=[1] * rank) if rank > 1 else [split]
    at = []
    for shift, place, size in zip(parts, regular, window.spatial, strict=True):
        moved = node.add(node.reshaped(shift, (batch * offset_group, 1, taps * places)), _row(place))
        at.append(linear_taps(node, moved, size))
    data = node.reshaped(X, (batch * offset_group, channels // offset_group, math.prod(window.spatial)))
    columns = gathered(node, data, window.spatial, at)
    if mask is not None:
        factors = node.reshaped(mask, (batch * offset_group, 1, taps * places))
        columns = node.multiply(columns, factors)
    made = node.gemm(
        node.reshaped(W, (1, group, W.shape[0] // group, W.shape[1] * taps)),
        node.reshaped(columns, (batch, group, W.shape[1] * taps, places)),
    )
    made = node.reshaped(made, (batch, W.shape[0], *output))
    if B is not None:
        made = node.add(made, node.reshaped(B, (1, W.shape[0], *[1] * rank)))
    return node.tensor(made)


def _row(places: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> Tensor:
    return Tensor.of(places.astype(np.float32).reshape(1, 1, -1))
