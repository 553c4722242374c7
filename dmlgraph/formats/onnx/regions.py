"""RoiAlign: ROI_ALIGN1, given regions for which its samples are ONNX's.

ROI_ALIGN1 differs in three ways.  It does not widen small regions.  It takes a sample of an empty region, of which ONNX
has no samples, unless their number is given.  Samples exactly at −1 and at the image's size are outside, where ONNX
reads the element at the edge; so a region with such a sample is moved toward the middle of the image, by some units in
the last place.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dmlgraph.formats.onnx.node import Node
from dmlgraph.formats.onnx.refusals import Refusal
from dmlgraph.formats.onnx.region_maxima import greatest_terms
from dmlgraph.formats.onnx.table import imports
from dmlgraph.formats.onnx.tensors import Array, Calls, Tensor
from dmlgraph.graph.value import Value

_OUTSIDE = -8  # where no sample counts
_SHRINKING = 2.0**-19  # moves a sample at the edge by more than it is rounded
_NEAR = 2.0**-21  # how near to the edge a sample is at it, as a part of the image
_LEAST_STEP = 1e-30  # instead of 0, of empty regions


_HOW = "roi_align1, arithmetic on the regions; max: gather, multiply, reduce"


@imports(since=10, until=15, how=_HOW)
def RoiAlign_10(node: Node, X: Tensor, rois: Tensor, batch_indices: Tensor, **attributes: Any) -> Tensor:
    return RoiAlign(node, X, rois, batch_indices, **attributes, coordinate_transformation_mode="output_half_pixel")


@imports(since=16, how=_HOW)
def RoiAlign(
    node: Node,
    X: Tensor,
    rois: Tensor,
    batch_indices: Tensor,
    *,
    coordinate_transformation_mode: str = "half_pixel",
    sampling_ratio: int = 0,
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    spatial_scale: float = 1.0,
) -> Tensor:
    half = coordinate_transformation_mode == "half_pixel"
    dml = node.dml
    x, corners = dml.value(X), dml.value(rois)
    if corners.sizes[1] != 4:
        got = [*corners.sizes]
        raise Refusal("a region has four numbers", code="sizes", field="rois", got=got, allowed="[regions, 4]")
    if mode == "max":
        shape = (output_height, output_width)
        return greatest_terms(node, X, rois, batch_indices, shape, sampling_ratio, spatial_scale, half_pixel=half)
    if X.dtype == np.float16:  # too narrow for regions
        x, corners = dml.converted(x, "float32"), dml.converted(corners, "float32")
    sizes = [corners.sizes[0], x.sizes[1], output_height, output_width]
    regions = _regions(dml, corners, x.sizes, sizes, spatial_scale, sampling_ratio, half)
    return node.tensor(
        dml.roi_align1(
            x,
            regions,
            dml.converted(dml.index(batch_indices), "uint32"),
            sizes=sizes,
            reduction_function="average",
            interpolation_mode="linear",
            spatial_scale_x=1.0,
            spatial_scale_y=1.0,
            input_pixel_offset=0.0,
            output_pixel_offset=-0.5,
            out_of_bounds_input_value=0.0,
            minimum_samples_per_output=sampling_ratio or 1,
            maximum_samples_per_output=sampling_ratio or 2**32 - 1,
            align_regions_to_corners=False,
        )
    )


def _regions(
    dml: Calls, rois: Value, image: tuple[int, ...], output: list[int], scale: float, samples: int, half: bool
) -> Value:
    """{R, 4}: the regions in elements of the image; in between {R, 2, 2}, of corners and of x and y."""
    corners = dml.reshaped(rois, (rois.sizes[0], 2, 2))
    if scale != 1:
        corners = dml.multiply(corners, scale)
    if half:
        corners = dml.subtract(corners, 0.5)
    start, end = dml.split(corners, axis=1, outputs=[1, 1])
    length = dml.subtract(end, start)
    if not half:
        length = dml.threshold(length, min=1)
        end = dml.add(start, length)
        start = dml.subtract(end, length)  # so that the length is not rounded up: it decides how many samples there are
        corners = dml.join([start, end], axis=1)
    width, height = image[3], image[2]
    counts = np.array([output[3], output[2]], np.float32)
    total = Tensor.of(_per_axis(counts * samples))
    if not samples:
        wanted = dml.threshold(dml.ceil(dml.divide(length, Tensor.of(_per_axis(counts)))), min=1)
        total = dml.multiply(wanted, Tensor.of(_per_axis(counts)))
    hit = _at_an_edge(dml, start, end, dml.divide(length, total), np.array([width, height], np.float32))
    middle = Tensor.of(_per_axis([(width - 1) / 2, (height - 1) / 2]))
    moved = dml.add(corners, dml.multiply(dml.subtract(middle, corners), _SHRINKING))
    corners = dml.if_(hit, moved, corners)
    if half and not samples:
        some = dml.logical_greater_than(length, 0, dtype="uint8")
        corners = dml.if_(some, corners, Tensor.of(np.full((1, 1, 1), _OUTSIDE, np.float32)))
    return dml.reshaped(corners, (rois.sizes[0], 4))


def _at_an_edge(dml: Calls, start: Value, end: Value, step: Value, size: Array) -> Value:
    """{R, 1, 2}: whether a sample is at −1 or at the image's size; the samples are in the middles of the steps."""
    edges = Tensor.of(np.stack([np.full(2, -1, np.float32), size])[None])
    length = dml.threshold(dml.abs(step), min=_LEAST_STEP)
    after = dml.subtract(edges, start)
    steps = dml.subtract(dml.divide(after, length), 0.5)
    away = dml.multiply(dml.abs(dml.subtract(steps, dml.round(steps))), length)
    near = dml.logical_less_than_or_equal(away, Tensor.of(_per_axis((size + 1) * _NEAR)), dtype="uint8")
    side = dml.multiply(after, dml.subtract(edges, end))
    crossed = dml.logical_less_than_or_equal(side, 0, dtype="uint8")
    low, high = dml.split(dml.logical_and(near, crossed), axis=1, outputs=[1, 1])
    hit: Value = dml.logical_or(low, high)
    return hit


def _per_axis(numbers: object) -> Array:
    """{1, 1, 2}, of x and y."""
    return np.asarray(numbers, np.float32).reshape(1, 1, 2)
