"""Regions of interest: crops of a tensor, all resized to the same size."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dmlgraph import operators as ops
from dmlgraph.base.errors import OperatorError, Problem
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.operators.common.numerics import convert
from dmlgraph.operators.common.windows import Sizes
from dmlgraph.operators.declaration.constraints import at_least, one_of, rank_at_least, require, rule, sizes_hold
from dmlgraph.operators.declaration.derivative import Backward, Gradients
from dmlgraph.operators.declaration.fields import (
    Bool,
    CountInput,
    Float,
    Input,
    Output,
    Size2d,
    UInt,
    inferred,
)
from dmlgraph.operators.declaration.operator import Array, Operator
from dmlgraph.operators.declaration.outputs import Given, Outcome
from dmlgraph.operators.directml_enums import InterpolationMode, ReduceFunction


class RoiPooling(Operator, dml="ROI_POOLING"):
    """The greatest element of each cell of each region; a region is divided into `pooled_size` cells.

    roi {1, 1, regions, 5} has (batch, x1, y1, x2, y2), corners inclusive; they are multiplied by `spatial_scale` and
    rounded.  With a region's height h = y2 − y1 + 1, cell row i is the rows from y1 + ⌊i · h / rows⌋ up to, excluding,
    y1 + ⌈(i + 1) · h / rows⌉; columns are divided in the same way.  Cells are clamped to the input; an empty cell gives
    zero.  `pooled_size` is [width, height].

    Shapes: input {N, C, H, W}, output {regions, C, height, width}.
    """

    meanings: ClassVar = {
        "pooled_size": "The width and height of the output.",
        "spatial_scale": "The factor from the regions' coordinates to pixels of the input.",
    }
    no_derivative: ClassVar = "DirectML does not say which elements it took"
    heavy: ClassVar = True
    example: ClassVar = (
        "input: [1, 1, 4, 6], roi: {dtype: float32, sizes: [1, 1, 2, 5], data: [0, 0, 0, 3, 3, 0, 2, 1, 5, 2]}, "
        "spatial_scale: 1, pooled_size: [2, 2]"
    )

    input: Input
    roi: Input
    output: Output = inferred()
    spatial_scale: Float
    pooled_size: Size2d

    def infer(self, given: Given) -> Outcome:
        width, height = self.pooled_size
        roi, allowed = self.roi, "[1, 1, regions, 5]"
        message = "must hold (batch, x1, y1, x2, y2) for each region"
        require(
            at_least("pooled_size", self.pooled_size),
            sizes_hold(roi.rank >= 2 and roi.sizes[-1] == 5, "roi", roi, message, allowed),
            rank_at_least("input", self.input, 2, "must be images", "[N, C, H, W]"),
        )
        return {"output": self.input.like(sizes=(roi.sizes[-2], self.input.sizes[1], height, width))}

    def constraints(self) -> Iterator[Problem]:
        message, allowed = "must have sizes of 1 before the regions", "[1, 1, regions, 5]"
        return sizes_hold(set(self.roi.sizes[:-2]) <= {1}, "roi", self.roi, message, allowed)

    def evaluate(self, x: Array, regions: Array) -> tuple[Array, ...]:
        width, height = self.pooled_size
        x = np.fmax(x, np.finfo(x.dtype).min)  # a maximum starts from the least number (measured)
        result = np.zeros(self.output.sizes, x.dtype)
        for index, (batch, *corners) in enumerate(regions.reshape(-1, 5).astype(np.float32)):
            with np.errstate(all="ignore"):
                places = np.rint(np.array(corners) * np.float32(self.spatial_scale))
            left, top, right, bottom = convert(places, DataType.INT32).tolist()
            image = x[int(np.clip(batch, 0, x.shape[0] - 1))]
            rows = list(_cells(top, max(bottom - top + 1, 1), height, x.shape[2]))
            columns = list(_cells(left, max(right - left + 1, 1), width, x.shape[3]))
            for row, rows_of_cell in enumerate(rows):
                for column, columns_of_cell in enumerate(columns):
                    cell = image[:, rows_of_cell, columns_of_cell]
                    if cell.size:
                        result[index, :, row, column] = cell.max(axis=(1, 2))
        return (result,)


def _cells(start: int, length: int, count: int, size: int) -> Iterator[slice]:
    """The range of `length` elements from `start` in `count` cells, clamped to [0, `size`]."""
    for cell in range(count):
        first = start + cell * length // count
        end = start + -(-(cell + 1) * length // count)
        yield slice(min(max(first, 0), size), min(max(end, 0), size))


@dataclasses.dataclass(frozen=True, slots=True)
class Samples:
    """Where a region is sampled along one dimension.

    Attributes:
        places: coordinates in the input; those of one output element are adjacent.
        indices: {places, taps}: the elements below and above each coordinate, or the nearest.
        weights: {places, taps}: the weight of each of them.
        inside: whether a coordinate is inside the input; NaN is, at the first element (measured).
    """

    places: Array
    indices: Array
    weights: Array
    inside: Array

    @property
    def taps(self) -> range:
        """The elements from which a sample is interpolated: the nearest, or the two beside it."""
        return range(self.indices.shape[1])

    def interpolate(self, image: Array, columns: Samples) -> Array:
        """The samples {C, rows, columns} of an image {C, H, W}; `self` are the rows."""
        corners = itertools.product(self.taps, columns.taps)
        return np.asarray(
            sum(
                image[:, self.indices[:, i, None], columns.indices[:, j]]
                * (self.weights[:, i, None] * columns.weights[:, j])
                for i, j in corners
            )
        )


def beside(places: Array, size: int) -> Array:
    """{places, 2}: the elements below and above each coordinate; NaN is at the first element."""
    below = np.where(np.isnan(places), 0, np.floor(places))
    return np.asarray(np.clip(below[:, None] + [0, 1], 0, size - 1), np.int64)


class Aligning(Operator):
    """Base of ROI_ALIGN, ROI_ALIGN1 and their gradient; the subclass's fields determine how they sample."""

    meanings: ClassVar = {
        "batch_indices": "The image of the batch to which each region belongs.",
        "input_pixel_offset": "Where the middle of an input element is.",
        "output_pixel_offset": "Where the middle of an output element is.",
        "spatial_scale_x": "The factor from the regions' horizontal coordinates to pixels of the input.",
        "spatial_scale_y": "The factor from the regions' vertical coordinates to pixels of the input.",
        "reduction_function": "What becomes of the samples of an output element: their average or maximum.",
        "minimum_samples_per_output": "The least number of samples for an output element in each dimension.",
        "maximum_samples_per_output": "The greatest number of samples for an output element in each dimension.",
        "align_regions_to_corners": "Whether the first and last samples are at the corners of the region.",
    }
    heavy: ClassVar = True

    reduction_function: ReduceFunction
    interpolation_mode: InterpolationMode
    spatial_scale_x: Float
    spatial_scale_y: Float

    if TYPE_CHECKING:  # fields of the subclasses, each in the order of its struct
        roi: TensorDesc
        batch_indices: TensorDesc
        minimum_samples_per_output: int
        maximum_samples_per_output: int

        # Fields of some subclasses, constants of the others.
        @property
        def input_pixel_offset(self) -> float: ...
        @property
        def output_pixel_offset(self) -> float: ...
        @property
        def align_regions_to_corners(self) -> bool: ...

    def fits(self) -> Iterator[Problem]:
        """The problems because of which the outputs cannot be inferred."""
        roi, batches = self.roi, self.batch_indices
        for field in ("input", "input_gradient"):
            yield from rank_at_least(field, getattr(self, field, None), 4, "must be images", "[N, C, H, W]")
        if roi.rank < 2 or roi.sizes[-1] != 4 or any(size != 1 for size in roi.sizes[:-2]):
            yield from sizes_hold(False, "roi", roi, "must hold (x1, y1, x2, y2) for each region", "[regions, 4]")
        else:
            holds = batches.sizes == (*(1,) * (batches.rank - 1), roi.sizes[-2])
            message = "must hold a batch for each region"
            yield from sizes_hold(holds, "batch_indices", batches, message, f"[{roi.sizes[-2]}]")

    def constraints(self) -> Iterator[Problem]:
        functions = (ReduceFunction.AVERAGE, ReduceFunction.MAX)
        message = "is not a reduction for regions"
        yield from one_of("reduction_function", self.reduction_function, functions, message, "conflict")
        for field in ("spatial_scale_x", "spatial_scale_y"):
            scale, message = getattr(self, field), "must not be negative or infinite"
            is_wrong = scale < 0 or scale == np.inf
            yield from rule(not is_wrong, field, message, "range", got=scale, allowed="0 or more, finite")
        least, most = self.minimum_samples_per_output, self.maximum_samples_per_output
        yield from at_least("minimum_samples_per_output", least)
        message = "must not be less than the minimum"
        yield from at_least("maximum_samples_per_output", most, least, message, allowed=f"{least} or more")

    def regions(
        self, regions: Array, batches: Array, image: Sizes, outputs: Sizes
    ) -> Iterator[tuple[Samples, Samples, int]]:
        """(samples of rows, samples of columns, batch) for each region."""
        scales = np.array([self.spatial_scale_x, self.spatial_scale_y] * 2, np.float32)
        for corners, batch in zip(regions.reshape(-1, 4), batches.ravel(), strict=True):
            left, top, right, bottom = corners.astype(np.float32) * scales
            rows = self.samples(top, bottom, image[2], outputs[0])
            columns = self.samples(left, right, image[3], outputs[1])
            yield rows, columns, int(batch)

    def samples(self, begin: np.float32, end: np.float32, size: int, count: int) -> Samples:
        """Where a region is sampled for `count` output elements along a dimension of the input.

        How many samples there are is decided in float32, where a length near a multiple of `count` may be that
        (measured).
        """
        into, out_of, aligned = self.input_pixel_offset, self.output_pixel_offset, self.align_regions_to_corners
        least, most = self.minimum_samples_per_output, self.maximum_samples_per_output
        wanted = float(np.ceil(abs(end - begin) / np.float32(count)))
        per_output = least if np.isnan(wanted) else int(np.clip(wanted, least, most))
        start = float(begin)
        length = float(end) - start
        total = count * per_output
        steps = np.arange(total) - out_of
        if not aligned:
            places = steps * (length / total) + start - into
        elif total > 1:
            places = steps * (length / (total - 1)) + start - into
        else:
            places = np.array([start + length / 2 - into])
        # Aligned to corners, the edges are the outermost elements; else they extend for less than one element.
        outside = (places < 0) | (places > size - 1) if aligned else (places <= -1) | (places >= size)
        if self.interpolation_mode is InterpolationMode.NEAREST_NEIGHBOR:
            return Samples(places, beside(places + 0.5, size)[:, :1], np.ones((total, 1)), ~outside)
        part = np.where(outside, 0, places - np.floor(places))
        return Samples(places, beside(places, size), np.stack([1 - part, part], 1), ~outside)


class AligningForward(Aligning):
    """Base of ROI_ALIGN and ROI_ALIGN1."""

    meanings: ClassVar = {"out_of_bounds_input_value": "The value of a sample outside the input."}

    input: Input
    roi: Input
    batch_indices: CountInput
    output: Output = inferred()

    if TYPE_CHECKING:  # a field of the subclasses, each in the order of its struct
        out_of_bounds_input_value: float

    output_keywords: ClassVar = ("sizes",)

    def infer(self, given: Given) -> Outcome:
        require(self.fits())
        sizes = given["output"].sizes
        tensor, regions = self.input, self.roi.sizes[-2]
        if sizes is None or len(sizes) != 4 or sizes[:2] != (regions, tensor.sizes[1]):
            raise OperatorError(
                "must be given: they say how large the regions become",
                code="missing",
                field="output.sizes",
                got=None if sizes is None else list(sizes),
                allowed=f"[{regions}, {tensor.sizes[1]}, height, width]",
            )
        return {"output": tensor.like(sizes=sizes)}

    @np.errstate(all="ignore")
    def evaluate(self, x: Array, regions: Array, batches: Array) -> tuple[Array, ...]:
        output: TensorDesc = self.output
        outside, function = self.out_of_bounds_input_value, self.reduction_function
        height, width = output.sizes[2:]
        result = np.zeros(output.sizes)
        for index, (rows, columns, batch) in enumerate(self.regions(regions, batches, x.shape, (height, width))):
            # A batch beyond the last one reads the last.
            values = rows.interpolate(x[min(batch, len(x) - 1)].astype(np.float64), columns)
            values = np.where(rows.inside[:, None] & columns.inside, values, outside)
            cells = values.reshape(len(values), height, -1, width, len(columns.places) // width)
            if function is ReduceFunction.AVERAGE:
                result[index] = cells.mean((2, 4))
            else:  # measured: a maximum starts from the least number, and ignores NaN
                result[index] = np.fmax.reduce(cells, (2, 4), initial=np.finfo(output.dtype.numpy).min)
        return (convert(result, output.dtype),)

    def derivative(self, back: Backward) -> Gradients:
        x, regions, batches = back.given
        back.constant_input(1, "DirectML's gradient of regions is not their derivative")
        fields = {name: getattr(self, name) for name in ops.RoiAlignGrad.attribute_fields}
        return [back(ops.RoiAlignGrad, x, back.g, regions, batches, output_gradient=True, **fields), None, None]


class RoiAlign(AligningForward, dml="ROI_ALIGN"):
    """ROI_ALIGN1 with pixel offsets of 0.5 and −0.5, the middles of elements, and regions not aligned to corners.

    Shapes: input {N, C, H, W}, roi {regions, 4}, batch_indices {regions}, output {regions, C, height, width}, whose
    sizes must be given.
    """

    example: ClassVar = (
        "input: [1, 1, 4, 6], roi: {dtype: float32, sizes: [2, 4], data: [[0, 0, 4, 4], [1, 0, 5, 2]]}, "
        "batch_indices: {dtype: uint32, sizes: [2], data: [0, 0]}, output: {sizes: [2, 1, 2, 2]}, "
        "reduction_function: average, interpolation_mode: linear, spatial_scale_x: 1, spatial_scale_y: 1, "
        "out_of_bounds_input_value: 0, minimum_samples_per_output: 1, maximum_samples_per_output: 4"
    )
    input_pixel_offset: ClassVar = 0.5
    output_pixel_offset: ClassVar = -0.5
    align_regions_to_corners: ClassVar = False

    out_of_bounds_input_value: Float
    minimum_samples_per_output: UInt
    maximum_samples_per_output: UInt


class RoiAlign1(AligningForward, dml="ROI_ALIGN1"):
    """Regions of images, all resized to the same height and width by sampling and reducing the samples.

    roi has (x1, y1, x2, y2), which are multiplied by the spatial scales.  Along a dimension, a region of size `length`
    is sampled n = clamp(⌈|length| / count⌉, minimum, maximum) times for each of `count` output elements (the
    rounding is measured), at (s − output_pixel_offset) · length / (count · n) + start − input_pixel_offset for s
    from 0 to count · n − 1.  With `align_regions_to_corners` the divisor is count · n − 1, and a single sample is in
    the middle (measured).  A sample is interpolated between the elements beside it.  The elements at the edges extend
    for less than one element, or not at all if aligned (measured); beyond, a sample is `out_of_bounds_input_value`.  An
    output element is the average or max of its samples.  Inverted regions are mirrored, empty ones repeat one point.

    Shapes: input {N, C, H, W}, roi {regions, 4}, batch_indices {regions}, output {regions, C, height, width}, whose
    sizes must be given; roi and batch_indices may have leading sizes of 1.
    """

    example: ClassVar = (
        "input: [1, 1, 4, 6], roi: {dtype: float32, sizes: [2, 4], data: [[0, 0, 4, 4], [1, 0, 5, 2]]}, "
        "batch_indices: {dtype: uint32, sizes: [2], data: [0, 0]}, output: {sizes: [2, 1, 2, 2]}, "
        "reduction_function: average, interpolation_mode: linear, spatial_scale_x: 1, spatial_scale_y: 1, "
        "out_of_bounds_input_value: 0, minimum_samples_per_output: 1, maximum_samples_per_output: 4, "
        "input_pixel_offset: 0.5, output_pixel_offset: -0.5, align_regions_to_corners: false"
    )

    input_pixel_offset: Float
    output_pixel_offset: Float
    out_of_bounds_input_value: Float
    minimum_samples_per_output: UInt
    maximum_samples_per_output: UInt
    align_regions_to_corners: Bool
