"""The gradient of regions of interest: for the image, and for the corners of the regions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from dmlgraph.base.errors import OperatorError, Problem
from dmlgraph.operators.common.numerics import convert
from dmlgraph.operators.declaration.constraints import is_given, require, same_sizes, sizes_hold
from dmlgraph.operators.declaration.fields import (
    AskedOutput,
    Bool,
    CountInput,
    Float,
    Input,
    OptionalInput,
    UInt,
    inferred,
)
from dmlgraph.operators.declaration.operator import Array
from dmlgraph.operators.declaration.outputs import Given, Outcome
from dmlgraph.operators.directml_enums import ReduceFunction
from dmlgraph.operators.roi import Aligning, Samples, beside


class RoiAlignGrad(Aligning, dml="ROI_ALIGN_GRAD"):
    """The gradient of ROI_ALIGN1: for its input (`output_gradient`), for its regions (`output_roi_gradient`), or both.

    An element of `input_gradient` is divided equally between its samples (average), or goes to the first greatest
    sample (max).  Each share goes to the elements from which the sample was interpolated, by their weights.  For each
    share g of an output element a region's corners get g · dx · (w − x), g · dy · (h − y), g · dx · x and g · dy · y.
    Here (dx, dy) is the slope of the image at the sample; w and h are the image's width and height, minus 1 if regions
    are aligned to corners; x is the element's column times w, divided by the steps of all samples, and y its row times
    h, divided in the same way.  All this is measured, and also that in a maximum a sample outside counts as 0.

    Request an output with `true`, or with its sizes: `output_gradient: {sizes: [N, C, H, W]}` if `input` is left out.
    `input` must be given for `output_roi_gradient`, and for max.
    """

    no_derivative: ClassVar = "the second derivative of a region is not written"
    meanings: ClassVar = {"output_roi_gradient": "The gradient of the regions."}
    example: ClassVar = (
        "input: [1, 1, 4, 4], input_gradient: [1, 1, 2, 2], "
        "roi: {dtype: float32, sizes: [1, 4], data: [1, 1, 3, 3]}, "
        "batch_indices: {dtype: uint32, sizes: [1], data: [0]}, output_gradient: true, output_roi_gradient: true, "
        "reduction_function: average, interpolation_mode: linear, spatial_scale_x: 1, spatial_scale_y: 1, "
        "input_pixel_offset: 0.5, output_pixel_offset: -0.5, minimum_samples_per_output: 1, "
        "maximum_samples_per_output: 4, align_regions_to_corners: false"
    )

    input: OptionalInput = None
    input_gradient: Input
    roi: Input
    batch_indices: CountInput
    output_gradient: AskedOutput = inferred()
    output_roi_gradient: AskedOutput = inferred()
    input_pixel_offset: Float
    output_pixel_offset: Float
    minimum_samples_per_output: UInt
    maximum_samples_per_output: UInt
    align_regions_to_corners: Bool

    def infer(self, given: Given) -> Outcome:
        require(self.fits())
        corners, image = self.wants(given, "output_roi_gradient"), None
        if self.wants(given, "output_gradient"):
            sizes = given["output_gradient"].sizes or (self.input and self.input.sizes)
            if sizes is None:
                raise OperatorError("must be given if there is no input", code="missing", field="output_gradient.sizes")
            image = self.input_gradient.like(sizes=sizes)
        elif not corners:
            message, allowed = "must be requested, or output_roi_gradient", "true, or its sizes"
            raise OperatorError(message, code="missing", field="output_gradient", allowed=allowed)
        return {"output_gradient": image, "output_roi_gradient": self.roi.like() if corners else None}

    def constraints(self) -> Iterator[Problem]:
        yield from super().constraints()
        if self.output_roi_gradient is not None or self.reduction_function is ReduceFunction.MAX:
            yield from is_given("input", self.input, "must be given for output_roi_gradient, and for the reduction max")
        yield from same_sizes("output_gradient", self.output_gradient, "input", self.input)
        described = self.output_gradient or self.input
        regions = (self.roi.sizes[-2], *(described.sizes[1:2] if described else ()))
        gradient = self.input_gradient
        message = "must have a batch for each region, and the channels of the image"
        allowed = f"[{', '.join(map(str, regions))}, …]"
        yield from sizes_hold(gradient.sizes[: len(regions)] == regions, "input_gradient", gradient, message, allowed)

    @np.errstate(all="ignore")
    def evaluate(self, x: Array | None, gradient: Array, regions: Array, batches: Array) -> tuple[Array, ...]:
        sizes = self.first_output.sizes if x is None else x.shape
        height, width = gradient.shape[2:]
        image, moved = np.zeros(sizes), np.zeros((len(gradient), 4))
        for index, (rows, columns, batch) in enumerate(self.regions(regions, batches, sizes, (height, width))):
            inside = rows.inside[:, None] & columns.inside
            read = None if x is None else x[min(batch, len(x) - 1)]
            shares = self._shares(gradient[index].astype(np.float64), rows, columns, inside, read)
            # Measured: the gradient of a batch beyond the last is dropped.
            for i, j in itertools.product(rows.taps, columns.taps) if batch < sizes[0] else ():
                weights = rows.weights[:, i, None] * columns.weights[:, j]
                place: Any = (slice(None), rows.indices[:, i, None], columns.indices[:, j])
                np.add.at(image[batch], place, shares * weights)
            if read is not None:
                moved[index] = self._moved(shares, rows, columns, read.astype(np.float64))
        results = {"output_gradient": image, "output_roi_gradient": moved}
        return tuple(
            convert(results[field].reshape(desc.sizes), desc.dtype)
            for field, desc in zip(self.output_fields, self.output_descs, strict=True)
            if desc is not None
        )

    def _shares(self, gradient: Array, rows: Samples, columns: Samples, inside: Array, image: Array | None) -> Array:
        """Each sample's share of the gradient."""
        channels, height, width = gradient.shape
        per_row, per_column = len(rows.places) // height, len(columns.places) // width
        spread = gradient.repeat(per_row, 1).repeat(per_column, 2)
        if self.reduction_function is ReduceFunction.AVERAGE or image is None:  # max needs the image
            return np.where(inside, spread / (per_row * per_column), 0)
        values = np.where(inside, rows.interpolate(image, columns), 0)  # a sample outside counts as 0
        cells = values.reshape(channels, height, per_row, width, per_column).transpose(0, 1, 3, 2, 4)
        winner = cells.reshape(channels, height, width, -1).argmax(-1)
        chosen = np.arange(per_row * per_column) == winner[..., None]
        chosen = chosen.reshape(channels, height, width, per_row, per_column).transpose(0, 1, 3, 2, 4)
        return np.where(inside & chosen.reshape(spread.shape), spread, 0)

    def _moved(self, shares: Array, rows: Samples, columns: Samples, image: Array) -> list[float]:
        """The gradient of a region's corners (x1, y1, x2, y2); the slope is bilinear in both modes (measured)."""

        def corner(i: int, j: int) -> Array:
            return image[
                :, beside(rows.places, image.shape[1])[:, i, None], beside(columns.places, image.shape[2])[:, j]
            ]

        y, x = (rows.places - np.floor(rows.places))[:, None], columns.places - np.floor(columns.places)
        along_y = (1 - x) * (corner(1, 0) - corner(0, 0)) + x * (corner(1, 1) - corner(0, 1))
        along_x = (1 - y) * (corner(0, 1) - corner(0, 0)) + y * (corner(1, 1) - corner(1, 0))

        def reach(samples: Samples, count: int, size: int) -> tuple[Array, Array]:
            """The weights of a region's end and start: an output element's position, in steps of samples."""
            length, steps = float(size), len(samples.places)
            if self.align_regions_to_corners:
                length, steps = length - 1, max(steps - 1, 1)
            to_end = np.arange(len(samples.places)) // (len(samples.places) // count) * (length / steps)
            return to_end, length - to_end

        height, width = self.input_gradient.sizes[2:]
        (bottom, top), (right, left) = reach(rows, height, image.shape[1]), reach(columns, width, image.shape[2])
        inside = rows.inside[:, None] & columns.inside
        along_x, along_y = (np.where(inside, along * shares, 0) for along in (along_x, along_y))
        return [
            (along_x * left).sum(),
            (along_y * top[:, None]).sum(),
            (along_x * right).sum(),
            (along_y * bottom[:, None]).sum(),
        ]
