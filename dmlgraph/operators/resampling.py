"""Resampling: tensors stretched or shrunk along their dimensions, and the gradients.

Along each dimension, input element i is at the output's position (i + input_pixel_offset) · scale +
output_pixel_offset.  So output element o reads the input at c = (o − output_pixel_offset) · (1 / scale) −
input_pixel_offset; every step of that is rounded to float32 (measured).  Beyond the input's edges the elements at the
edges are repeated.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from dmlgraph import operators as ops
from dmlgraph.base.errors import OperatorError, Problem
from dmlgraph.base.tensor import TensorDesc
from dmlgraph.operators.common.numerics import convert
from dmlgraph.operators.common.windows import Sizes
from dmlgraph.operators.declaration.constraints import at_least, between, determined, require, rule
from dmlgraph.operators.declaration.derivative import Backward, Gradients
from dmlgraph.operators.declaration.fields import (
    Bool,
    Count,
    Entries,
    FloatPerDimension,
    Input,
    Output,
    Size2d,
    inferred,
)
from dmlgraph.operators.declaration.operator import Array, Operator
from dmlgraph.operators.declaration.outputs import Given, Outcome
from dmlgraph.operators.directml_enums import AxisDirection, InterpolationMode

_MIDDLES = (0.5, -0.5)  # the pixel offsets of input and output for positions at the middles of elements
InputOffsets = Annotated[FloatPerDimension, Entries(default=_MIDDLES[0])]
OutputOffsets = Annotated[FloatPerDimension, Entries(default=_MIDDLES[1])]
_ANTIALIASED_FROM = 2.0  # 1 / scale above which a dimension is antialiased
_UINT_MAX = 2**32 - 1
_LEAST_SCALE = 2.0**-23  # DirectML refuses less (measured)


@dataclasses.dataclass(frozen=True, slots=True)
class Taps:
    """The weights of each output element along a dimension: it is Σ over t of weights[o, t] · input[indices[o, t]]."""

    indices: Array
    weights: Array

    def copies(self, size: int) -> bool:
        """Whether the output equals an input of `size` elements."""
        return self.indices.shape == (size, 1) and bool((self.indices[:, 0] == np.arange(size)).all())

    def gather(self, x: Array, axis: int, dtype: type[np.floating[Any]]) -> Array:
        """The resampled array, computed in a float type."""
        if self.weights.shape[1] == 1:  # without weights elements are copied, also infinite ones
            return x.take(self.indices[:, 0], axis)
        # The weights add up to one.  With DirectML's formula an infinite element makes its neighbours NaN.
        first = x.take(self.indices[:, 0], axis).astype(dtype)
        result = first
        for indices, weights in zip(self.indices.T[1:], self.weights.T[1:].astype(dtype), strict=True):
            result = result + weights.reshape((-1,) + (1,) * (x.ndim - axis - 1)) * (x.take(indices, axis) - first)
        return np.asarray(result)

    def scatter(self, gradient: Array, axis: int, size: int) -> Array:
        """The transpose: each element, times its weight, is added to its input elements; the axis has `size`."""
        rows = np.moveaxis(gradient, axis, 0)
        total = np.zeros((size, *rows.shape[1:]))
        for indices, weights in zip(self.indices.T, self.weights.T, strict=True):
            np.add.at(total, indices, rows * weights.reshape((-1,) + (1,) * (rows.ndim - 1)))
        return np.moveaxis(total, 0, axis)

    def matrix(self, size: int) -> Array:
        """The weight of each of `size` input elements, {size, outputs}."""
        return self.scatter(np.eye(len(self.indices)), 0, size)


def coordinates(count: int, scale: float, offset: float) -> Array:
    """The position of each of `count` output elements in the input, without the input's pixel offset, in float32."""
    return (np.arange(count, dtype=np.float32) - np.float32(offset)) * (1 / np.float32(scale))


def elements(places: Array, size: int) -> Array:
    """Whole positions as indices, clamped to the ends; NaN becomes the first (measured)."""
    return np.clip(np.where(np.isnan(places), 0, places), 0, size - 1).astype(np.int64)


def nearest(where: Array, size: int, direction: AxisDirection | None) -> Taps:
    """The element at a coordinate that is rounded up, down, or (None) to the nearest, halves up."""
    if direction is AxisDirection.INCREASING:
        rounded = np.ceil(where)
    else:
        rounded = np.floor(where if direction is AxisDirection.DECREASING else where + np.float32(0.5))
    return Taps(elements(rounded[:, None], size), np.ones((len(where), 1)))


def linear(where: Array, size: int) -> Taps:
    """The two elements beside a coordinate, weighted by their nearness."""
    where = np.clip(where, 0, size - 1).astype(np.float64)
    below = np.floor(where)
    part = where - below
    return Taps(elements(below[:, None] + [0, 1], size), np.stack([1 - part, part], axis=1))


def extrapolated(places: Array, offset: float, size: int, *, copied: bool) -> Taps:
    """Two elements, weighted by their nearness to a coordinate, which is the position minus the offset.

    Measured: the forward operators take the two elements beside the position minus the offset clipped to [0, 1].  So
    with an offset beyond that, they are not beside the coordinate, and are extrapolated.  Along a dimension that is
    copied the first of them is taken.
    """
    below = np.floor(places - np.float32(min(max(offset, 0), 1)))
    part = (places - np.float32(offset)).astype(np.float64) - below
    indices = elements(below[:, None] + [0, 1], size)
    part = np.where((indices[:, 0] == indices[:, 1]) & np.isfinite(part), 0, part)
    if copied or size == 1:
        return Taps(indices[:, :1], np.ones((len(places), 1)))
    return Taps(indices, np.stack([1 - part, part], axis=1))


def antialiased(where: Array, size: int, scale: float) -> Taps:
    """All elements nearer to a coordinate than 1 / scale, weighted by their nearness; weights add up to one."""
    reach = 1 / scale
    first = np.floor(where - reach) + 1
    indices = first[:, None] + np.arange(int(np.ceil(2 * reach)))
    weights = np.maximum(0, 1 - np.abs(indices - where[:, None]) / reach)
    return Taps(elements(indices, size), weights / weights.sum(1, keepdims=True))


class Resampling(Operator):
    """Base of the operators that resample, and of their gradients; the subclass's fields determine how."""

    meanings: ClassVar = {
        "scales": "The size of the output divided by that of the input in each dimension.",
        "input_pixel_offsets": "Where the middle of an input element is, in each dimension.",
        "output_pixel_offsets": "Where the middle of an output element is, in each dimension.",
        "rounding_direction": "Whether a position between two elements is rounded up or down.",
    }
    heavy: ClassVar = True

    if TYPE_CHECKING:  # fields of the subclasses, each in the order of its struct
        interpolation_mode: InterpolationMode
        scales: tuple[float, ...]

    output_keywords: ClassVar[tuple[str, ...]] = ("sizes",)
    offset_fields: ClassVar = ("input_pixel_offsets", "output_pixel_offsets")  # of the forward input, output
    extrapolates: ClassVar = True  # if an offset is below 0 or above 1 (measured)

    def taps(self, sizes: Sizes, counts: Sizes) -> Iterator[tuple[int, Taps]]:
        """(axis, taps) for every dimension that is not only copied, from tensors of `sizes` to `counts`."""
        offsets = self.offsets(len(sizes))
        for axis, (size, count, scale, *both) in enumerate(
            zip(sizes, counts, self.scale_of_dimensions, *offsets, strict=True)
        ):
            places = coordinates(count, scale, both[1])
            where = places - np.float32(both[0])
            if self.interpolation_mode is InterpolationMode.NEAREST_NEIGHBOR:
                taps = nearest(where, size, self.direction)
            elif getattr(self, "antialiased", None) and 1 / scale > _ANTIALIASED_FROM:
                taps = antialiased(where.astype(np.float64), size, scale)
            elif self.extrapolates:
                taps = extrapolated(places, both[0], size, copied=scale == 1 and sum(both) == 0)
            else:
                taps = linear(where, size)
            if not taps.copies(size):
                yield axis, taps

    def offsets(self, rank: int) -> list[tuple[float, ...]]:
        """The pixel offsets of the forward operator's input, and of its output."""
        pairs = zip(self.offset_fields, _MIDDLES, strict=True)
        return [getattr(self, field, (middle,) * rank) for field, middle in pairs]

    @property
    def direction(self) -> AxisDirection | None:
        """The direction in which nearest_neighbor rounds; None means to the nearest."""
        # Measured: RESAMPLE and RESAMPLE1 round 8-bit tensors down.
        is_float = getattr(self, self.input_fields[0]).dtype.is_float
        direction: AxisDirection | None = getattr(self, "rounding_direction", None)
        return direction if is_float or direction is not None else AxisDirection.DECREASING

    @property
    def scale_of_dimensions(self) -> tuple[float, ...]:
        scales: tuple[float, ...] = self.scales
        return scales

    def constraints(self) -> Iterator[Problem]:
        scales, allowed = getattr(self, "scales", None) or (), f"{_LEAST_SCALE} or more"
        return at_least("scales", scales, _LEAST_SCALE, "is too small", code="sizes", allowed=allowed)


class Directed(Resampling):
    """Base of the operators that round positions between two elements in a direction."""

    rounding_direction: AxisDirection = AxisDirection.INCREASING


class WithOffsets(Resampling):
    """Base of the operators with the places of elements' middles."""

    scales: FloatPerDimension = inferred()
    input_pixel_offsets: InputOffsets = inferred()
    output_pixel_offsets: OutputOffsets = inferred()


class ForwardResampling(Resampling):
    """Base of the operators that resample."""

    moves: ClassVar[tuple[str, ...]] = ("input",)

    input: Input
    output: Output = inferred()
    interpolation_mode: InterpolationMode

    @property
    def only_moves(self) -> bool:
        return self.interpolation_mode is InterpolationMode.NEAREST_NEIGHBOR

    def infer(self, given: Given) -> Outcome:
        require(self.constraints())
        tensor, sizes = self.input, given["output"].sizes
        if sizes is None:
            if "scales" not in given:
                raise OperatorError("must be given, unless the scales are", code="missing", field="output.sizes")
            # In float32, where 10 times the number nearest to 0.7 is 7 and not less.
            stretched = np.array(tensor.sizes, np.float32) * np.array(self.scales, np.float32)
            if np.isinf(stretched).any():
                raise OperatorError("must be given if a scale is infinite", code="missing", field="output.sizes")
            sizes = tuple(max(1, int(size)) for size in stretched)
        return {"output": tensor.like(sizes=sizes)}

    def derive(self, given: Given) -> Mapping[str, Any]:
        if "scales" in given:
            return {}
        sizes, counts = self.input.sizes, self.output.sizes
        return {"scales": tuple(float(np.float32(count / size)) for size, count in zip(sizes, counts, strict=False))}

    def evaluate(self, x: Array) -> tuple[Array, ...]:
        output: TensorDesc = self.output
        result = x
        wide = np.float64 if output.dtype.is_float else np.float32  # truncation at the end would show another rounding
        with np.errstate(all="ignore"):
            for axis, taps in self.taps(x.shape, output.sizes):
                result = taps.gather(result, axis, wide)
            return (convert(result, output.dtype),)

    def derivative(self, back: Backward) -> Gradients:
        """By RESAMPLE_GRAD where it takes the same elements, else by the weights of each element."""
        gradient, sizes = back.g, self.input.sizes
        given, taken = self.offsets(len(sizes))
        directed = "rounding_direction" in self.fields
        operator = ops.ResampleGrad1 if directed else ops.ResampleGrad
        if back.legal(operator) and not getattr(self, "antialiased", False) and all(0 <= each <= 1 for each in given):
            fields = {
                "interpolation_mode": self.interpolation_mode,
                "scales": self.scale_of_dimensions,
                "input_pixel_offsets": taken,
                "output_pixel_offsets": given,
                **({"rounding_direction": self.direction} if directed else {}),
            }
            return [back(operator, gradient, sizes=sizes, **fields)]
        for axis, taps in self.taps(sizes, self.output.sizes):
            gradient = back.along(gradient, axis, taps.matrix(sizes[axis]))
        return [gradient]


class Resample(ForwardResampling, dml="RESAMPLE"):
    """The input stretched by `scales`, one for each dimension; the middles of elements are aligned.

    Along every dimension, `linear` interpolates between the two elements beside an output element's position.
    `nearest_neighbor` takes the nearest one, at halves the latter; for integers it takes the one at or before the
    position.  Interpolated integers are truncated (both measured).  A size of the output is the input's times the
    scale, truncated, unless `output` gives its sizes: then the result is cropped, or continued with the input's last
    element.
    """

    example: ClassVar = "input: [1, 1, 2, 3], interpolation_mode: linear, scales: [1, 1, 2, 2]"

    scales: Annotated[FloatPerDimension, Count("ScaleCount")] = inferred()


class Resample1(WithOffsets, ForwardResampling, dml="RESAMPLE1"):
    """RESAMPLE with given pixel offsets.

    Input element i is at the output's position (i + input_pixel_offset) · scale + output_pixel_offset.  By default the
    scales are the output's sizes over the input's, and the offsets 0.5 and −0.5, which aligns the middles.
    """

    example: ClassVar = "input: [1, 1, 2, 3], output: {sizes: [1, 1, 4, 6]}, interpolation_mode: linear"


class Resample2(WithOffsets, Directed, ForwardResampling, dml="RESAMPLE2"):
    """RESAMPLE1, but `nearest_neighbor` rounds the position where it reads up (`increasing`) or down (`decreasing`).

    To take the nearest element, shift `input_pixel_offsets` by half an element: by 0.5 for `increasing`, where
    halves go down, by −0.5 for `decreasing`, where they go up.
    """

    example: ClassVar = (
        "input: [1, 1, 2, 3], output: {sizes: [1, 1, 4, 6]}, interpolation_mode: nearest_neighbor, "
        "rounding_direction: decreasing, input_pixel_offsets: [0, 0, 0, 0], output_pixel_offsets: [0, 0, 0, 0]"
    )


class Resample3(WithOffsets, Directed, ForwardResampling, dml="RESAMPLE3"):
    """RESAMPLE2 with, if `antialiased`, a wider filter if `linear` shrinks a dimension to less than half.

    The filter weights all elements nearer than 1 / scale to the position by their nearness; the weights add up to one,
    and beyond the edges the elements at the edges are repeated.
    """

    meanings: ClassVar = {"antialiased": "Whether a smaller output averages all elements it covers."}
    moves: ClassVar = ()  # it may be antialiased
    example: ClassVar = (
        "input: [1, 1, 8, 8], output: {sizes: [1, 1, 2, 2]}, interpolation_mode: linear, antialiased: true"
    )

    antialiased: Bool = False


class Upsample2d(ForwardResampling, dml="UPSAMPLE_2D"):
    """The last two dimensions, height and width, stretched by whole numbers, as in RESAMPLE.

    `scale_size` is [width, height].  RESAMPLE can do more.
    """

    meanings: ClassVar = {"scale_size": "How often each pixel is repeated: in width, and in height."}
    output_keywords: ClassVar = ()
    example: ClassVar = "input: [1, 1, 2, 3], scale_size: [2, 3], interpolation_mode: nearest_neighbor"

    input: Input
    output: Output = inferred()
    scale_size: Size2d
    interpolation_mode: InterpolationMode

    @property
    def scale_of_dimensions(self) -> tuple[float, ...]:
        width, height = self.scale_size
        return (*(1.0,) * (self.input.rank - 2), float(height), float(width))

    def infer(self, given: Given) -> Outcome:
        sizes, two = self.input.sizes, len(self.input.sizes) >= 2
        message, allowed = "must have a height and a width", "4 or 5 dimensions"
        require(rule(two, "input.sizes", message, "rank", got="1 dimension", allowed=allowed))
        *outer, rows, columns = sizes
        message = "must be at least 1, and keep the size within 32 bits"
        for index, (size, scale) in enumerate(zip((columns, rows), self.scale_size, strict=True)):
            require(between(f"scale_size.{index}", scale, 1, _UINT_MAX // size, message, "sizes"))
        width, height = self.scale_size
        return {"output": self.input.like(sizes=(*outer, rows * height, columns * width))}

    def derive(self, given: Given) -> Mapping[str, Any]:
        return {}


class BackwardResampling(Resampling):
    """Base of the gradients: the forward operator's input has the sizes of `output_gradient`."""

    input_gradient: Input
    output_gradient: Output = inferred()
    interpolation_mode: InterpolationMode

    # Measured: an offset belongs to the tensor with its name; the input gradient is the forward output.
    offset_fields: ClassVar = ("output_pixel_offsets", "input_pixel_offsets")
    extrapolates: ClassVar = False

    def infer(self, given: Given) -> Outcome:
        require(self.constraints())
        why = "inputs of several sizes are resampled to the same size"
        sizes = determined(given["output_gradient"].sizes, "output_gradient.sizes", why)
        return {"output_gradient": self.input_gradient.like(sizes=sizes)}

    def derive(self, given: Given) -> Mapping[str, Any]:
        if "scales" in given:
            return {}
        sizes, counts = self.output_gradient.sizes, self.input_gradient.sizes
        return {"scales": tuple(float(np.float32(count / size)) for size, count in zip(sizes, counts, strict=False))}

    def evaluate(self, gradient: Array) -> tuple[Array, ...]:
        output: TensorDesc = self.output_gradient
        result = gradient.astype(np.float64)
        with np.errstate(all="ignore"):
            for axis, taps in self.taps(output.sizes, gradient.shape):
                result = taps.scatter(result, axis, output.sizes[axis])
            return (convert(result, output.dtype),)

    def derivative(self, back: Backward) -> Gradients:
        gradient, counts = back.g, self.input_gradient.sizes
        for axis, taps in self.taps(self.output_gradient.sizes, counts):
            gradient = back.along(gradient, axis, taps.matrix(self.output_gradient.sizes[axis]).T)
        return [gradient]


class ResampleGrad(WithOffsets, BackwardResampling, dml="RESAMPLE_GRAD"):
    """The gradient of RESAMPLE1: each element, times its weight, is added to the elements that it was computed from.

    Shapes: `input_gradient` has the sizes of RESAMPLE1's output; `output_gradient`, whose sizes must be given, those of
    its input.  The pixel offsets belong to the tensors with their names (measured): the gradient of RESAMPLE1 with
    offsets of 0.5 and −0.5 has −0.5 and 0.5.  The defaults are 0.5 and −0.5 here too, as in DirectMLX.
    """

    example: ClassVar = (
        "input_gradient: [1, 1, 1, 3], output_gradient: {sizes: [1, 1, 2, 2]}, interpolation_mode: nearest_neighbor"
    )


class ResampleGrad1(WithOffsets, Directed, BackwardResampling, dml="RESAMPLE_GRAD1"):
    """The gradient of RESAMPLE2: each element, times its weight, is added to the elements that it was computed from.

    Shapes: `input_gradient` has the sizes of RESAMPLE2's output; `output_gradient`, whose sizes must be given, those of
    its input.  The pixel offsets belong to the tensors with their names (measured): RESAMPLE2's `output_pixel_offsets`
    are `input_pixel_offsets` here, and the reverse.
    """

    example: ClassVar = (
        "input_gradient: [1, 1, 1, 3], output_gradient: {sizes: [1, 1, 2, 2]}, interpolation_mode: linear, "
        "rounding_direction: increasing, scales: [1, 1, 0.5, 1.5], input_pixel_offsets: [-0.5, -0.5, -0.5, -0.5], "
        "output_pixel_offsets: [0.5, 0.5, 0.5, 0.5]"
    )
