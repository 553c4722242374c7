"""RoiAlign: ROI_ALIGN1, given regions for which its samples are ONNX's.

ROI_ALIGN1 differs in three ways.  It does not widen small regions.  It takes a sample of an empty region, of which ONNX
has no samples, unless their number is given.  Samples exactly at −1 and at the image's size are outside, where ONNX
reads the element at the edge; so a region with such a sample is moved toward the middle of the image, by some units in
the last place.

With mode max ONNX takes the greatest weighted term of the samples, ROI_ALIGN1 the greatest sample.
"""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np

from dmlgraph.formats.onnx.export.emitter import FLOAT32, INT64, Emitter, Symbol
from dmlgraph.formats.onnx.indexing import Gather
from dmlgraph.formats.onnx.node import Node, Result, counted
from dmlgraph.formats.onnx.refusals import Refusal
from dmlgraph.formats.onnx.table import exports, imports
from dmlgraph.formats.onnx.tensors import Array, Tensor
from dmlgraph.graph.value import Value
from dmlgraph.operators.directml_enums import InterpolationMode, ReduceFunction

_OUTSIDE = -8  # where no sample counts
_SHRINKING = 2.0**-19  # moves a sample at the edge by more than it is rounded
_NEAR = 2.0**-21  # how near to the edge a sample is at it, as a part of the image
_LEAST_STEP = 1e-30  # instead of 0, of empty regions


_MODES = ("output_half_pixel", "half_pixel")  # before opset 16, and since then by default
_HOW = "roi_align1, arithmetic on the regions; max: gather, multiply, reduce"


_MOST_SAMPLES = 64  # for one output element, along a dimension, where they are matrices
_ENDLESS = 2**31  # a maximum of samples that no region reaches


@imports(since=10, how=_HOW)
def RoiAlign(
    node: Node,
    X: Tensor,
    rois: Tensor,
    batch_indices: Tensor,
    *,
    coordinate_transformation_mode: str | None = None,
    sampling_ratio: int = 0,
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    spatial_scale: float = 1.0,
) -> Tensor:
    half = (coordinate_transformation_mode or _MODES[node.opset >= 16]) == "half_pixel"
    x, corners = node.value(X), node.value(rois)
    if corners.sizes[1] != 4:
        got = [*corners.sizes]
        raise Refusal("a region has four numbers", code="sizes", field="rois", got=got, allowed="[regions, 4]")
    if mode == "max":
        shape = (output_height, output_width)
        return greatest_terms(node, X, rois, batch_indices, shape, sampling_ratio, spatial_scale, half_pixel=half)
    if X.dtype == np.float16:  # too narrow for regions
        x, corners = node.converted(x, "float32"), node.converted(corners, "float32")
    sizes = [corners.sizes[0], x.sizes[1], output_height, output_width]
    regions = _regions(node, corners, x.sizes, sizes, spatial_scale, sampling_ratio, half)
    return node.tensor(
        node.roi_align1(
            x,
            regions,
            node.converted(node.index(batch_indices), "uint32"),
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
    node: Node, rois: Value, image: tuple[int, ...], output: list[int], scale: float, samples: int, half: bool
) -> Value:
    """{R, 4}: the regions in elements of the image; in between {R, 2, 2}, of corners and of x and y."""
    corners = node.reshaped(rois, (rois.sizes[0], 2, 2))
    if scale != 1:
        corners = node.multiply(corners, scale)
    if half:
        corners = node.subtract(corners, 0.5)
    start, end = node.split(corners, axis=1, outputs=[1, 1])
    length = node.subtract(end, start)
    if not half:
        length = node.threshold(length, min=1)
        end = node.add(start, length)
        # So that the length is not rounded up: it decides how many samples there are.
        start = node.subtract(end, length)
        corners = node.join([start, end], axis=1)
    width, height = image[3], image[2]
    counts = np.array([output[3], output[2]], np.float32)
    if samples:
        total = node.value(Tensor.of(_per_axis(counts * samples)))
    else:
        wanted = node.threshold(node.ceil(node.divide(length, Tensor.of(_per_axis(counts)))), min=1)
        total = node.multiply(wanted, Tensor.of(_per_axis(counts)))
    hit = _at_an_edge(node, start, end, node.divide(length, total), np.array([width, height], np.float32))
    middle = Tensor.of(_per_axis([(width - 1) / 2, (height - 1) / 2]))
    moved = node.add(corners, node.multiply(node.subtract(middle, corners), _SHRINKING))
    corners = node.if_(hit, moved, corners)
    if half and not samples:
        some = node.logical_greater_than(length, 0, dtype="uint8")
        corners = node.if_(some, corners, Tensor.of(np.full((1, 1, 1), _OUTSIDE, np.float32)))
    return node.reshaped(corners, (rois.sizes[0], 4))


def _at_an_edge(node: Node, start: Value, end: Value, step: Value, size: Array) -> Value:
    """{R, 1, 2}: whether a sample is at −1 or at the image's size; the samples are in the middles of the steps."""
    edges = Tensor.of(np.stack([np.full(2, -1, np.float32), size])[None])
    length = node.threshold(node.abs(step), min=_LEAST_STEP)
    after = node.subtract(edges, start)
    steps = node.subtract(node.divide(after, length), 0.5)
    away = node.multiply(node.abs(node.subtract(steps, node.round(steps))), length)
    near = node.logical_less_than_or_equal(away, Tensor.of(_per_axis((size + 1) * _NEAR)), dtype="uint8")
    side = node.multiply(after, node.subtract(edges, end))
    crossed = node.logical_less_than_or_equal(side, 0, dtype="uint8")
    low, high = node.split(node.logical_and(near, crossed), axis=1, outputs=[1, 1])
    return node.logical_or(low, high)


def _per_axis(numbers: object) -> Array:
    """{1, 1, 2}, of x and y."""
    return np.asarray(numbers, np.float32).reshape(1, 1, 2)


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
    products = rows.weights @ node.cast(images, FLOAT32)
    values = products @ node.transpose(columns.weights, (0, 1, 3, 2))
    outside = node.number(node.field("out_of_bounds_input_value"), FLOAT32)
    inside = _both(node, rows.inside, columns.inside)
    values = node.call("Where", inside, values, outside)
    is_average = node.field("reduction_function") is ReduceFunction.AVERAGE
    start = node.number(0 if is_average else np.finfo(np.float32).min, FLOAT32)
    values = node.call("Where", _both(node, rows.used, columns.used), values, start)
    cells = node.reshape(values, (regions, channels, height, most, width, most))
    made = node.call("ReduceSum" if is_average else "ReduceMax", cells, node.ints([3, 5]), keepdims=0)
    if is_average:
        number = rows.number * columns.number
        made = made / node.reshape(number, (regions, 1, 1, 1))
    return node.cast(made, node.dtype)


def _both(node: Emitter, rows: Symbol, columns: Symbol) -> Symbol:
    """{R, 1, rows, columns}"""
    upright, flat = node.call("Unsqueeze", rows, node.ints([3])), node.call("Unsqueeze", columns, node.ints([2]))
    return upright & flat


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
    length = end - start
    share = node.call("Ceil", node.call("Abs", length) / node.number(count, FLOAT32))
    least = node.field("minimum_samples_per_output")
    number = node.call("Clip", share, node.number(least, FLOAT32), node.number(most, FLOAT32))
    element, sample = np.arange(count)[:, None], np.arange(most)
    step = number * node.number(np.broadcast_to(element, (count, most)).ravel(), FLOAT32)
    step = step + node.number(np.tile(sample, count) - node.field("output_pixel_offset"), FLOAT32)
    places = _places(node, step, start, length, number * count)
    used = node.number(np.tile(sample, count), FLOAT32) < number
    return _Samples(_weights(node, places, size), _inside(node, places, size), used, number)


def _corner(node: Emitter, corners: Symbol, column: int, scale: float) -> Symbol:
    """A corner's coordinate, {R, 1, 1}."""
    taken = node.call("Gather", corners, node.number(column, INT64), axis=1)
    return node.reshape(taken, (node.output.sizes[0], 1, 1)) * scale


def _places(node: Emitter, step: Symbol, start: Symbol, length: Symbol, total: Symbol) -> Symbol:
    """The coordinates of the samples in the input, {R, 1, O · S}."""
    aligned, into = node.field("align_regions_to_corners"), node.field("input_pixel_offset")
    one = node.number(1, FLOAT32)
    parts = node.call("Max", total + -1, one) if aligned else total
    moved = step * (length / parts)
    if aligned:  # a single sample is in the middle
        several = total > one
        moved = node.call("Where", several, moved, length * 0.5)
    return moved + start + -float(into)


def _inside(node: Emitter, places: Symbol, size: int) -> Symbol:
    if node.field("align_regions_to_corners"):
        low = places >= 0
        high = places <= size - 1
    else:
        low = places > -1
        high = places < size
    return low & high


def _weights(node: Emitter, places: Symbol, size: int) -> Symbol:
    """1 − the distance to each element, where that is positive; or 1 for the nearest element."""
    if node.field("interpolation_mode") is InterpolationMode.NEAREST_NEIGHBOR:
        places = node.call("Floor", places + 0.5)
    places = node.call("Clip", places, node.number(0, FLOAT32), node.number(size - 1, FLOAT32))
    upright = node.call("Unsqueeze", places, node.ints([3]))
    distance = node.call("Abs", upright - node.number(np.arange(size), FLOAT32))
    return node.call("Relu", distance * -1 + 1)


@exports("roi_pooling", how="MaxRoiPool")
def _pool(node: Emitter) -> Symbol:
    width, height = node.field("pooled_size")
    regions = node.flat("roi", node.output.sizes[0], 5)
    scale = node.field("spatial_scale")
    return node.call("MaxRoiPool", node["input"], regions, pooled_shape=[height, width], spatial_scale=scale)


@imports(how="roi_pooling; rounding: multiply, sign, add, round")
def MaxRoiPool(node: Node, X: Tensor, rois: Tensor, *, pooled_shape: list[int], spatial_scale: float = 1.0) -> Result:
    height, width = counted("pooled_shape", pooled_shape, [2])
    # Halves are rounded away from zero here: DirectML rounds them to even places.
    scaled = node.multiply(rois, Tensor.of(np.array([[1.0, *[spatial_scale] * 4]], rois.dtype)))
    further = node.add(scaled, node.multiply(node.sign(scaled), 0.5))
    rounded = node.round(further, rounding_mode="toward_zero")
    boxes = node.reshaped(rounded, (1, 1, *rois.shape))
    return node.tensor(node.roi_pooling(X, boxes, spatial_scale=1.0, pooled_size=[width, height]))


Tap = tuple[Value, Value]  # places and weights of elements beside samples


def greatest_terms(
    node: Node,
    x: Tensor,
    rois: Tensor,
    batches: Tensor,
    shape: tuple[int, int],
    samples: int,
    scale: float,
    *,
    half_pixel: bool,
) -> Tensor:
    """{R, C, H, W}: a sample has four terms, elements times their weights in linear interpolation.

    The inputs are those of RoiAlign, the shape is H and W, and the samples are for one element, along an axis.

    Raises:
        Refusal: the number of samples depends on the regions.
    """
    _, channels, height, width = x.shape
    if samples < 1:
        message = "the greatest of samples whose number depends on the regions has no counterpart"
        raise Refusal(message, field="sampling_ratio", got=samples, allowed="1 and more")
    count, (rows, columns) = rois.shape[0], shape
    image = node.transposed(node.converted(x, "float32"), [0, 2, 3, 1])
    flat = node.tensor(node.reshaped(image, (x.count // channels, channels)))
    regions = node.multiply(node.converted(rois, "float32"), scale)
    if half_pixel:
        regions = node.subtract(regions, 0.5)
    left, top, right, bottom = node.split(regions, axis=1, outputs=[1] * 4)
    down = _taps(node, top, bottom, height, rows, samples, widen=not half_pixel)
    across = _taps(node, left, right, width, columns, samples, widen=not half_pixel)
    lines, pillars = (count, rows * samples, 1), (count, 1, columns * samples)
    first = node.multiply(node.reshaped(node.converted(batches, "int32"), (count, 1, 1)), _whole(height * width))
    best: Value | None = None
    for (row, upright), (column, level) in itertools.product(down, across):
        begins = node.add(first, node.multiply(node.reshaped(row, lines), _whole(width)))
        places = node.add(begins, node.reshaped(column, pillars))
        weights = node.multiply(node.reshaped(upright, lines), node.reshaped(level, pillars))
        taken = Gather(node, flat, node.tensor(places), axis=0)
        terms = node.multiply(taken, node.reshaped(weights, (*places.sizes, 1)))
        terms = node.reshaped(terms, (count, rows, samples, columns, samples, channels))
        terms = node.reduce(terms, function="max", axes=[2, 4])
        best = terms if best is None else node.max(best, terms)
    assert best is not None
    made = node.transposed(node.reshaped(best, (count, rows, columns, channels)), [0, 3, 1, 2])
    return node.tensor(node.converted(made, node.value(x).dtype))


def _whole(number: int) -> Tensor:
    return Tensor.of(np.full((1, 1, 1), number, np.int32))


def _taps(node: Node, start: Value, end: Value, size: int, parts: int, samples: int, *, widen: bool) -> list[Tap]:
    """The elements before and behind each sample along an axis, {R, parts · samples}; the bounds are {R, 1}."""
    length = node.subtract(end, start)
    if widen:
        length = node.threshold(length, min=1)
    part = node.divide(length, parts)
    which, within = np.divmod(np.arange(parts * samples, dtype=np.float32), np.float32(samples))
    # In ONNX Runtime's order: a sample at an edge counts or not.
    begin = node.add(start, node.multiply(part, Tensor.of(which[None])))
    place = node.add(begin, node.divide(node.multiply(part, Tensor.of(within[None] + np.float32(0.5))), samples))
    inside = node.logical_equals(place, node.clip(place, min=-1, max=size), dtype="uint8")
    place = node.clip(place, min=0, max=size - 1)
    low = node.floor(place)
    behind = node.subtract(place, low)
    before = node.add(node.multiply(behind, -1), 1)
    high = node.clip(node.add(low, 1), min=0, max=size - 1)
    nothing = Tensor.of(np.zeros((1, 1), np.float32))
    return [
        (node.converted(each, "int32"), node.if_(inside, weight, nothing))
        for each, weight in ((low, before), (high, behind))
    ]
