"""DeformConv: a convolution whose taps lie at places that are computed."""

from __future__ import annotations

import math

import numpy as np

from dmlgraph.formats.onnx.node import Node, Result
from dmlgraph.formats.onnx.refusals import Refusal
from dmlgraph.formats.onnx.sampling import gathered, linear_taps
from dmlgraph.formats.onnx.table import imports
from dmlgraph.formats.onnx.tensors import Tensor
from dmlgraph.formats.onnx.windows import Window


@imports("DeformConv", since=19, how="gather_elements, gemm and element-wise operators")
def _deform_conv(node: Node) -> Result:
    """Inputs: x {N, C, spatial…}, weights {M, C / group, kernel…}, offsets, bias {M}, mask.

    Offsets are {N, groups · taps · dimensions, output…}, masks {N, groups · taps, output…}, both of offset groups.
    """
    dml, x, w, offsets = node.dml, node[0], node[1], node[2]
    bias, mask = node.get(3), node.get(4)
    window = Window.of(node, x.shape[2:], node.ints("kernel_shape", default=w.shape[2:]) or [])
    groups, shifts = node.attribute("group", 1), node.attribute("offset_group", 1)
    batch, channels = x.shape[:2]
    taps, rank = math.prod(window.kernel), len(window.spatial)
    output = offsets.shape[2:]
    places = math.prod(output)
    expected = (batch, shifts * taps * rank)
    if offsets.shape[:2] != expected or len(output) != rank or channels % shifts or channels != w.shape[1] * groups:
        message = "the offsets must hold a place for each tap of each group, in each dimension"
        raise Refusal(message, code="sizes", field="offset", got=list(offsets.shape), allowed=str([*expected, "…"]))
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
    split = dml.reshaped(dml.converted(offsets, "float32"), (batch * shifts, taps, rank, places))
    parts = dml.split(split, axis=2, outputs=[1] * rank) if rank > 1 else [split]
    at = []
    for shift, place, size in zip(parts, regular, window.spatial, strict=True):
        moved = dml.add(dml.reshaped(shift, (batch * shifts, 1, taps * places)), _row(place))
        at.append(linear_taps(dml, moved, size))
    data = dml.reshaped(x, (batch * shifts, channels // shifts, math.prod(window.spatial)))
    columns = gathered(dml, data, window.spatial, at)
    if mask is not None:
        factors = dml.reshaped(mask, (batch * shifts, 1, taps * places))
        columns = dml.multiply(columns, factors)
    made = dml.gemm(
        dml.reshaped(w, (1, groups, w.shape[0] // groups, w.shape[1] * taps)),
        dml.reshaped(columns, (batch, groups, w.shape[1] * taps, places)),
    )
    made = dml.reshaped(made, (batch, w.shape[0], *output))
    if bias is not None:
        made = dml.add(made, dml.reshaped(bias, (1, w.shape[0], *[1] * rank)))
    return node.tensor(made)


def _row(places: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> Tensor:
    return Tensor.of(places.astype(np.float32).reshape(1, 1, -1))
