"""Regions of interest: by ONNX's RoiAlign where it has the same samples, else as products with matrices of weights."""

from __future__ import annotations

import dataclasses

import numpy as np

from dmlgraph.formats.onnx.export.emitter import BOOL, FLOAT32, INT64, Emitter, Symbol
from dmlgraph.formats.onnx.refusals import Refusal
from dmlgraph.formats.onnx.table import exports
from dmlgraph.operators.directml_enums import InterpolationMode, ReduceFunction

_MOST_SAMPLES = 64  # for one output element, along a dimension, where they are matrices
_ENDLESS = 2**31  # a maximum of samples that no region reaches


@exports("roi_pooling", how="MaxRoiPool")
def _pool(node: Emitter) -> Symbol:
    width, height = node.field("pooled_size")
    regions = node.flat("roi", node.output.sizes[0], 5)
    scale = node.field("spatial_scale")
    return node.call("MaxRoiPool", node["input"], regions, pooled_shape=[height, width], spatial_scale=scale)


@exports("roi_align", "roi_align1", how="RoiAlign; other samples: MatMul with their weights, ReduceSum, ReduceMax")
def _align(node: Emitter) -> Symbol:
    return _as_operator(node) if _is_operator(node) else _as_products(node)


def _is_operator(node: Emitter) -> bool:
    """Whether ONNX's RoiAlign has the same samples."""
    least, most = _counts(node)
    return bool(
        node.field("reduction_function") is ReduceFunction.AVERAGE
        and node.field("interpolation_mode") is InterpolationMode.LINEAR
        and node.field("spatial_scale_y") == node.field("spatial_scale_x")
        and node.field("input_pixel_offset") in (0, 0.5)
        and node.field("output_pixel_offset") == -0.5
        and node.field("out_of_bounds_input_value") == 0
        and not node.field("align_regions_to_corners")
        and ((least == 1 and most >= _ENDLESS) or least == most)
    )


def _counts(node: Emitter) -> tuple[int, int]:
    """The least and the most samples for one output element, along a dimension."""
    return node.field("minimum_samples_per_output"), node.field("maximum_samples_per_output")


def _batches(node: Emitter) -> Symbol:
    return node.cast(node.flat("batch_indices", node.output.sizes[0]), INT64)


def _as_operator(node: Emitter) -> Symbol:
    least, most = _counts(node)
    return node.call(
        "RoiAlign",
        node["input"],
        node.flat("roi", node.output.sizes[0], 4),
        _batches(node),
        coordinate_transformation_mode="half_pixel" if node.field("input_pixel_offset") else "output_half_pixel",
        mode="avg",
        output_height=node.output.sizes[2],
        output_width=node.output.sizes[3],
        sampling_ratio=least if least == most else 0,
        spatial_scale=node.field("spatial_scale_x"),
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Samples:
    """Samples along a dimension: S of them for each of O output elements, of which each region uses some.

    Attributes:
        weights: {R, 1, O · S, size}, of the elements of the input.
        inside: {R, 1, O · S}, whether a sample is in the input.
        used: {R, 1, O · S}, whether the region uses it.
        number: {R, 1, 1}, how many it uses for one output element.
    """

    weights: Symbol
    inside: Symbol
    used: Symbol
    number: Symbol


def _as_products(node: Emitter) -> Symbol:
    (regions, channels, height, width), most = node.output.sizes, _most(node)
    corners = node.cast(node.flat("roi", regions, 4), FLOAT32)
    rows = _samples(node, corners, 1, most)
    columns = _samples(node, corners, 0, most)
    last = node.number(node.desc("input").sizes[0] - 1, INT64)
    images = node.call("Gather", node["input"], node.call("Min", _batches(node), last), axis=0)
    products = node.call("MatMul", rows.weights, node.cast(images, FLOAT32))
    values = node.call("MatMul", products, node.transpose(columns.weights, (0, 1, 3, 2)))
    outside = node.number(node.field("out_of_bounds_input_value"), FLOAT32)
    inside = _both(node, rows.inside, columns.inside)
    values = node.call("Where", inside, values, outside, dtype=FLOAT32)
    is_average = node.field("reduction_function") is ReduceFunction.AVERAGE
    start = node.number(0 if is_average else np.finfo(np.float32).min, FLOAT32)
    values = node.call("Where", _both(node, rows.used, columns.used), values, start, dtype=FLOAT32)
    cells = node.reshape(values, (regions, channels, height, most, width, most))
    made = node.call("ReduceSum" if is_average else "ReduceMax", cells, node.ints([3, 5]), keepdims=0)
    if is_average:
        number = node.call("Mul", rows.number, columns.number)
        made = node.call("Div", made, node.reshape(number, (regions, 1, 1, 1)))
    return node.cast(made, node.dtype)


def _both(node: Emitter, rows: Symbol, columns: Symbol) -> Symbol:
    """{R, 1, rows, columns}"""
    upright, flat = node.call("Unsqueeze", rows, node.ints([3])), node.call("Unsqueeze", columns, node.ints([2]))
    return node.call("And", upright, flat)


def _most(node: Emitter) -> int:
    """The most samples that a region uses for one output element, along a dimension."""
    least, most = _counts(node)
    known = node.known("roi")
    if known is not None:
        scales = np.array([node.field("spatial_scale_x"), node.field("spatial_scale_y")])
        corners = known.reshape(-1, 4).astype(np.float64)
        lengths = np.abs(corners[:, 2:] - corners[:, :2]) * scales / node.output.sizes[:1:-1]
        most = int(np.clip(np.ceil(lengths.max()), least, most))
    if most > _MOST_SAMPLES:
        raise Refusal(
            "ONNX's RoiAlign has no such samples",
            field="maximum_samples_per_output",
            got=most,
            allowed=f"at most {_MOST_SAMPLES}, unless the rest is as RoiAlign has it",
        )
    return most


def _samples(node: Emitter, corners: Symbol, column: int, most: int) -> _Samples:
    """The samples of all regions along a dimension: `column` is that of the start in the corners."""
    size, count = node.desc("input").sizes[3 - column], node.output.sizes[3 - column]
    scale = node.field("spatial_scale_y" if column else "spatial_scale_x")
    start, end = (_corner(node, corners, column + more, scale) for more in (0, 2))
    length = node.call("Sub", end, start)
    share = node.call("Ceil", node.call("Div", node.call("Abs", length), node.number(count, FLOAT32)))
    least = node.field("minimum_samples_per_output")
    number = node.call("Clip", share, node.number(least, FLOAT32), node.number(most, FLOAT32))
    element, sample = np.arange(count)[:, None], np.arange(most)
    step = node.call("Mul", number, node.number(np.broadcast_to(element, (count, most)).ravel(), FLOAT32))
    step = node.call("Add", step, node.number(np.tile(sample, count) - node.field("output_pixel_offset"), FLOAT32))
    places = _places(node, step, start, length, node.line(number, count, 0))
    used = node.call("Less", node.number(np.tile(sample, count), FLOAT32), number, dtype=BOOL)
    return _Samples(_weights(node, places, size), _inside(node, places, size), used, number)


def _corner(node: Emitter, corners: Symbol, column: int, scale: float) -> Symbol:
    """A corner's coordinate, {R, 1, 1}."""
    taken = node.call("Gather", corners, node.number(column, INT64), axis=1)
    return node.line(node.reshape(taken, (node.output.sizes[0], 1, 1)), scale, 0)


def _places(node: Emitter, step: Symbol, start: Symbol, length: Symbol, total: Symbol) -> Symbol:
    """The coordinates of the samples in the input, {R, 1, O · S}."""
    aligned, into = node.field("align_regions_to_corners"), node.field("input_pixel_offset")
    one = node.number(1, FLOAT32)
    parts = node.call("Max", node.line(total, 1, -1), one) if aligned else total
    moved = node.call("Mul", step, node.call("Div", length, parts))
    if aligned:  # a single sample is in the middle
        several = node.call("Greater", total, one, dtype=BOOL)
        moved = node.call("Where", several, moved, node.line(length, 0.5, 0), dtype=FLOAT32)
    return node.line(node.call("Add", moved, start), 1, -into)


def _inside(node: Emitter, places: Symbol, size: int) -> Symbol:
    if node.field("align_regions_to_corners"):
        low = node.call("GreaterOrEqual", places, node.number(0, FLOAT32), dtype=BOOL)
        high = node.call("LessOrEqual", places, node.number(size - 1, FLOAT32), dtype=BOOL)
    else:
        low = node.call("Greater", places, node.number(-1, FLOAT32), dtype=BOOL)
        high = node.call("Less", places, node.number(size, FLOAT32), dtype=BOOL)
    return node.call("And", low, high)


def _weights(node: Emitter, places: Symbol, size: int) -> Symbol:
    """1 − the distance to each element, where that is positive; or 1 for the nearest element."""
    if node.field("interpolation_mode") is InterpolationMode.NEAREST_NEIGHBOR:
        places = node.call("Floor", node.line(places, 1, 0.5))
    places = node.call("Clip", places, node.number(0, FLOAT32), node.number(size - 1, FLOAT32))
    upright = node.call("Unsqueeze", places, node.ints([3]))
    distance = node.call("Abs", node.call("Sub", upright, node.number(np.arange(size), FLOAT32)))
    return node.call("Relu", node.line(distance, -1, 1))
