"""DeformConv: a convolution whose taps lie at places that are computed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dmlgraph.formats.onnx.node import Maybe, Node
from dmlgraph.formats.onnx.refusals import Refusal
from dmlgraph.formats.onnx.sampling import gathered, linear_taps
from dmlgraph.formats.onnx.table import imports
from dmlgraph.formats.onnx.tensors import Tensor
from dmlgraph.formats.onnx.windows import Window


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
