"""Pooling: one number for each window that slides over the spatial dimensions, and the gradients.

Padding counts as zero in sums, and maxima ignore it.  Of float16 a sum is a float32, and rounded after the division or
the root.  DirectML adds up in float16, unless one window is the whole input (measured).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

import numpy as np

from dmlgraph import operators as ops
from dmlgraph.base.errors import Problem
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.operators.common.numerics import convert
from dmlgraph.operators.common.scales import along, as_channels, centred, paired, quantize
from dmlgraph.operators.common.windows import Sizes, Windowed, Windows
from dmlgraph.operators.convolution import transposed
from dmlgraph.operators.declaration.constraints import (
    at_least,
    determined,
    one_per_channel,
    require,
    same_sizes,
    sizes_are,
)
from dmlgraph.operators.declaration.derivative import Backward, Gradients, Tensor
from dmlgraph.operators.declaration.fields import (
    AskedOutput,
    Bool,
    IndexInput,
    Input,
    NumberType,
    OnePerSpatial,
    OptionalInput,
    Output,
    ScaleInput,
    UInt,
    UIntPerSpatial,
    ZeroPerSpatial,
    inferred,
)
from dmlgraph.operators.declaration.operator import Array, Operator
from dmlgraph.operators.declaration.outputs import Given, Outcome


class Window(Windowed):
    """Base: the window of a pooling operator, with one entry per spatial dimension."""

    meanings: ClassVar = {
        "window_size": "The size of the window in each spatial dimension.",
        "include_padding": "Whether the padding counts in an average.",
    }
    heavy: ClassVar = True

    strides: OnePerSpatial = inferred()
    window_size: UIntPerSpatial
    start_padding: ZeroPerSpatial = inferred()
    end_padding: ZeroPerSpatial = inferred()

    @property
    def window(self) -> Windows:
        return self.windows(self.window_size)

    def pooled(self, tensor: TensorDesc) -> Sizes:
        """The sizes of the pooled tensor: ⌊(padded − extent) / stride⌋ + 1."""
        window = self.window
        self.check_fits(window, tensor.sizes[2:])
        return tensor.sizes[:2] + window.counts(tensor.sizes[2:])


class DilatedWindow(Window):
    """Base: a window whose taps are `dilations` apart; its extent is 1 + (window_size − 1) · dilation."""

    dilations: OnePerSpatial = inferred()


class Pooling(Window):
    """Base of the operators that pool one tensor into another, {N, C, (D,) H, W} each."""

    input: Input
    output: Output = inferred()

    def infer(self, given: Given) -> Outcome:
        return {"output": self.input.like(sizes=self.pooled(self.input))}


def sums(window: Windows, x: Array) -> Array:
    """The sum of each window of x, in float32."""
    return np.asarray(window.over(window.pad(x.astype(np.float64), 0)).sum(window.tap_axes).astype(np.float32))


def averages(window: Windows, x: Array, include_padding: bool) -> Array:
    """The mean of each window of x, in x's type."""
    divisors = _divisors(window, x.shape[2:], include_padding)
    return np.asarray(sums(window, x) / divisors.astype(np.float32)).astype(x.dtype)


def _divisors(window: Windows, sizes: Sizes, include_padding: bool) -> Array:
    """The divisor of each window's sum: the number of its taps, or of those inside the tensor."""
    if include_padding:
        return np.array(window.tap_count)
    return np.asarray(window.over(window.pad(np.ones((1, 1, *sizes)), 0)).sum(window.tap_axes))


def spread(back: Backward, gradient: Tensor, windows: Windows) -> Tensor:
    """Each element of a gradient, added to all elements of its window of the input."""
    channels = back.x.sizes[1]
    ones = back.builder.fill(1, (channels, 1, *windows.taps), gradient.dtype)
    return transposed(back, gradient, ones, windows, back.x.sizes, groups=channels)


def elements_at(back: Backward, tensor: Tensor, indices: Tensor) -> Tensor:
    """The elements of a tensor at row-major indices."""
    return back(ops.Gather, tensor.reshape(-1), indices.reshape(-1), axis=0).reshape(indices.sizes)


class Averages(Pooling):
    """Base of the average poolings."""

    include_padding: Bool = False

    def evaluate(self, x: Array) -> tuple[Array, ...]:
        with np.errstate(all="ignore"):
            return (averages(self.window, x, self.include_padding),)

    def derivative(self, back: Backward) -> Gradients:
        windows, fields = self.window, {name: getattr(self, name) for name in AveragePoolingGrad.attribute_fields}
        if set(windows.dilations) == {1}:
            return [back(ops.AveragePoolingGrad, back.g, sizes=back.x.sizes, **fields)]
        divisors = _divisors(windows, self.input.sizes[2:], self.include_padding).astype(self.input.dtype.numpy)
        shared = back.builder.constant(np.broadcast_to(divisors, (1, 1, *back.g.sizes[2:])))
        return [spread(back, back.g / shared, windows)]


class AveragePooling(Averages, dml="AVERAGE_POOLING"):
    """The mean of each window: of all its elements if `include_padding`, else of those inside the input.

    Shapes: {N, C, (D,) H, W}; a spatial size of the output is ⌊(padded − window) / stride⌋ + 1.
    """

    example: ClassVar = (
        "input: [1, 1, 4, 6], window_size: [2, 2], strides: [2, 2], start_padding: [0, 0], end_padding: [0, 0], "
        "include_padding: false"
    )


class AveragePooling1(Averages, DilatedWindow, dml="AVERAGE_POOLING1"):
    """AVERAGE_POOLING of windows whose elements are `dilations` apart."""

    example: ClassVar = (
        "input: [1, 1, 4, 6], window_size: [2, 2], strides: [2, 2], start_padding: [0, 0], end_padding: [0, 0], "
        "include_padding: false"
    )


class QuantizedLinearAveragePooling(Averages, DilatedWindow, dml="QUANTIZED_LINEAR_AVERAGE_POOLING"):
    """The mean of each window of a quantized tensor, quantized: q stands for (q − zero_point) · scale.

    output = clamp(round(mean / output_scale) + output_zero_point), halves to even, where the mean is that of
    AVERAGE_POOLING1 of (input − input_zero_point) · input_scale; each step is rounded to float32 (measured).
    Padding counts as the number zero.  If padding is not included, the mean of a window of only padding is the greatest
    number without an output_zero_point, and the least with one (measured).  A zero point that is left out is 0.  Scales
    and zero points are one number or {1, C, 1, …}; a tensor of one dimension is read in this way.
    """

    derivative = Operator.derivative
    example: ClassVar = (
        "input: [1, 1, 4, 6], input_scale: {dtype: float32, sizes: [1], data: [0.5]}, "
        "output_scale: {dtype: float32, sizes: [1], data: [0.25]}, window_size: [2, 2], strides: [2, 2], "
        "include_padding: true"
    )

    input_scale: ScaleInput
    input_zero_point: OptionalInput = None
    output_scale: ScaleInput
    output_zero_point: Annotated[OptionalInput, NumberType("input")] = None

    @classmethod
    def adapt(cls, inputs: dict[str, Any], attributes: Mapping[str, Any]) -> dict[str, Any]:
        return paired(as_channels(inputs, cls.input_fields[1:]))

    def infer(self, given: Given) -> Outcome:
        dtype = given["output"].dtype or self.input.dtype
        if self.output_zero_point is not None:
            dtype = self.output_zero_point.dtype
        return {"output": self.input.like(sizes=self.pooled(self.input), dtype=dtype)}

    def constraints(self) -> Iterator[Problem]:
        for field in self.input_fields[1:]:
            yield from one_per_channel(field, getattr(self, field), self.input.sizes[1])

    def evaluate(  # type: ignore[override]  # of other tensors
        self, x: Array, x_scale: Array, x_zero: Array | None, scale: Array, zero: Array | None
    ) -> tuple[Array, ...]:
        with np.errstate(all="ignore"):
            numbers = (centred(x, x_zero) * along(x_scale, 1, x.ndim)).astype(np.float32)
            means = averages(self.window, numbers, self.include_padding)
            return (quantize(self.steps(means, scale, zero), zero, self.output.dtype),)

    @staticmethod
    def steps(means: Array, scale: Array, zero_point: Array | None) -> Array:
        """The means in steps of the output; the mean of no elements is infinite without a zero point (measured)."""
        steps = np.asarray(means / along(scale, 1, means.ndim))
        return np.where(np.isnan(steps), np.float32(np.inf), steps) if zero_point is None else steps


class LpNorms(Pooling):
    """Base of the Lp poolings."""

    p: UInt

    def constraints(self) -> Iterator[Problem]:
        return at_least("p", self.p, 1, "must be at least 1: there is no 0th root")

    def evaluate(self, x: Array) -> tuple[Array, ...]:
        window = self.window
        with np.errstate(all="ignore"):
            powers = np.abs(x.astype(np.float64)) ** self.p
            norms = sums(window, powers).astype(np.float64) ** (1 / self.p)
            return (norms.astype(x.dtype),)

    def derivative(self, back: Backward) -> Gradients:
        x, sign = back.x, back(ops.Sign, back.x)
        if self.p == 1:
            return [sign * spread(back, back.g, self.window)]
        root = back.choose(back.y > 0, back.y, 1)
        share = spread(back, back.g / back(ops.ConstantPow, root, exponent=self.p - 1), self.window)
        slope = x if self.p == 2 else sign * back(ops.ConstantPow, back(ops.Abs, x), exponent=self.p - 1)
        return [slope * share]


class LpPooling(LpNorms, dml="LP_POOLING"):
    """The p-norm of each window: (Σ |x|^p)^(1/p); p is usually 1 or 2.

    Shapes: {N, C, (D,) H, W}; a spatial size of the output is ⌊(padded − window) / stride⌋ + 1.
    """

    example: ClassVar = (
        "input: [1, 1, 4, 6], window_size: [2, 2], strides: [2, 2], start_padding: [0, 0], end_padding: [0, 0], p: 2"
    )


class LpPooling1(LpNorms, DilatedWindow, dml="LP_POOLING1"):
    """LP_POOLING of windows whose elements are `dilations` apart."""

    example: ClassVar = (
        "input: [1, 1, 4, 6], window_size: [2, 2], strides: [2, 2], start_padding: [0, 0], end_padding: [0, 0], "
        "p: 2, dilations: [2, 1]"
    )


def maxima(window: Windows, x: Array) -> tuple[Array, Array]:
    """The greatest element of each window of x, and its row-major index in x: the first of several, −1 if none.

    Measured: a maximum starts from the least number of the type (the least finite one; for integers of fewer bits the
    least of 32 bits), and every greater element replaces it.  So −infinity becomes the least number, NaN is ignored,
    and a window of only padding gives the least number, of 32 bits stored as CAST does: −128 in int8, 0 in int16.
    """
    if x.dtype.kind == "f":
        least = np.finfo(x.dtype).min
        x = np.fmax(x, least)
    else:
        x = x.astype(np.promote_types(x.dtype, f"{x.dtype.kind}4"))
        least = np.iinfo(x.dtype).min
    shape = (*x.shape[:2], *window.counts(x.shape[2:]), window.tap_count)
    views = window.over(window.pad(x, least)).reshape(shape)
    indices = window.over(window.pad(np.arange(x.size).reshape(x.shape), -1)).reshape(shape)
    first = ((indices >= 0) & (views == views.max(-1, keepdims=True))).argmax(-1)[..., None]
    return np.take_along_axis(views, first, -1)[..., 0], np.take_along_axis(indices, first, -1)[..., 0]


def or_infinite(window: Windows, x: Array, greatest: Array) -> Array:
    """The maxima, but −infinity if one window is all of x and no element is greater.

    Measured for poolings without indices: DirectML runs them as REDUCE.
    """
    whole = window.taps == x.shape[2:] and not any((*window.start, *window.end))
    if not whole or x.dtype.kind != "f":
        return greatest
    spatial = tuple(range(2, x.ndim))
    return np.where((x > -np.inf).any(spatial, keepdims=True), greatest, greatest.dtype.type(-np.inf))


class Maxima(Pooling):
    """Base of the max poolings."""

    meanings: ClassVar = {"output_indices": "The position of each maximum in the input."}
    order_preserving: ClassVar = "input"

    @property
    def indices_desc(self) -> TensorDesc | None:
        """The description of the second output; None if it is left out, as always in MAX_POOLING."""
        return next(iter(self.output_descs[1:]), None)

    def infer(self, given: Given) -> Outcome:
        output = self.input.like(sizes=self.pooled(self.input))
        if "output_indices" not in self.output_fields:
            return {"output": output}
        asked = given["output_indices"]
        indices = output.like(dtype=asked.dtype or DataType.UINT32) if self.wants(given, "output_indices") else None
        return {"output": output, "output_indices": indices}

    def evaluate(self, x: Array) -> tuple[Array, ...]:
        greatest, indices = maxima(self.window, x)
        asked = self.indices_desc
        output = convert(greatest, DataType.parse(x.dtype))
        if asked is None:
            return (or_infinite(self.window, x, output),)
        return output, np.maximum(indices, 0).astype(asked.dtype.numpy)

    def derivative(self, back: Backward) -> Gradients:
        fields = {name: getattr(self, name) for name in MaxPoolingGrad.attribute_fields if name in self.fields}
        return [back(ops.MaxPoolingGrad, back.x, back.g, **fields)]


class MaxPooling(Maxima, dml="MAX_POOLING"):
    """The greatest element of each window.  NaN is ignored, and −infinity counts as the least finite number.

    If one window is the whole input, −infinity stays, and is the result for only NaN (measured).
    Shapes: {N, C, (D,) H, W}; a spatial size of the output is ⌊(padded − window) / stride⌋ + 1.
    """

    example: ClassVar = (
        "input: [1, 1, 4, 6], window_size: [2, 2], strides: [2, 2], start_padding: [0, 0], end_padding: [0, 0]"
    )


class MaxPooling1(Maxima, dml="MAX_POOLING1"):
    """The greatest element of each window and, if requested, its index in the input.

    `output_indices: true` (or a `dtype`: uint32, or uint64) requests the indices: row-major, counted over the
    whole input, of the first maximum of each window.  Otherwise it is the same as MAX_POOLING.
    """

    example: ClassVar = (
        "input: [1, 1, 4, 6], window_size: [2, 2], strides: [2, 2], start_padding: [0, 0], end_padding: [0, 0], "
        "output_indices: true"
    )

    output_indices: AskedOutput = inferred()


class MaxPooling2(Maxima, DilatedWindow, dml="MAX_POOLING2"):
    """MAX_POOLING1 of windows whose elements are `dilations` apart."""

    example: ClassVar = "input: [1, 1, 4, 6], window_size: [2, 2], dilations: [2, 2], output_indices: true"

    output_indices: AskedOutput = inferred()


class AveragePoolingGrad(Window, dml="AVERAGE_POOLING_GRAD"):
    """The gradient of AVERAGE_POOLING: each element of the input is spread over its window in equal parts.

    Shapes: the input has the sizes of AVERAGE_POOLING's output, the output those of its input; `output_gradient` must
    give its sizes, because inputs of several sizes are pooled to the same size.
    """

    output_keywords: ClassVar = ("sizes",)
    example: ClassVar = (
        "input_gradient: [1, 1, 2, 2], output_gradient: {sizes: [1, 1, 3, 3]}, window_size: [2, 2], "
        "strides: [1, 1], include_padding: true"
    )

    input_gradient: Input
    output_gradient: Output = inferred()
    include_padding: Bool = False

    def infer(self, given: Given) -> Outcome:
        why = "inputs of several sizes are pooled to the same size"
        sizes = determined(given["output_gradient"].sizes, "output_gradient.sizes", why, allowed="4 or 5 sizes")
        output = self.input_gradient.like(sizes=sizes)
        if output.rank == self.input_gradient.rank:
            check_pooled_sizes(self.input_gradient, self.pooled(output))
        return {"output_gradient": output}

    def evaluate(self, gradient: Array) -> tuple[Array, ...]:
        window, sizes = self.window, self.output_gradient.sizes
        with np.errstate(all="ignore"):
            parts = gradient / _divisors(window, sizes[2:], self.include_padding).astype(gradient.dtype)
            total = np.zeros(sizes[:2] + window.padded(sizes[2:]), gradient.dtype)
            # From the last tap to the first, so that an element's windows are in order, which affects the rounding.
            for _, place in reversed(list(window.places(gradient.shape[2:]))):
                total[place] += parts
            return (window.crop(total),)

    def derivative(self, back: Backward) -> Gradients:
        return [back(ops.AveragePooling, back.g, **self.attributes)]


class MaxPoolingGrad(DilatedWindow, dml="MAX_POOLING_GRAD"):
    """The gradient of MAX_POOLING2: each element of `input_gradient` is added at the maximum of its window.

    If there are several maxima, it is added at the first.  Elements that are not a maximum have gradient zero.
    Shapes: `input` and the output have the sizes of MAX_POOLING2's input, `input_gradient` those of its output.
    """

    example: ClassVar = "input: [1, 1, 3, 3], input_gradient: [1, 1, 2, 2], window_size: [2, 2]"

    input: Input
    input_gradient: Input
    output_gradient: Output = inferred()

    def infer(self, given: Given) -> Outcome:
        check_pooled_sizes(self.input_gradient, self.pooled(self.input))
        return {"output_gradient": self.input.like()}

    def evaluate(self, x: Array, gradient: Array) -> tuple[Array, ...]:
        _, indices = maxima(self.window, x)
        total = np.zeros(x.size, x.dtype)
        inside = indices.ravel() >= 0  # a window of only padding has no maximum
        np.add.at(total, indices.ravel()[inside], gradient.ravel()[inside])
        return (total.reshape(x.shape),)

    def derivative(self, back: Backward) -> Gradients:
        _, indices = back.several(ops.MaxPooling2, back.x, output_indices=True, **self.attributes)
        return [None, elements_at(back, back.g, indices)]


def check_pooled_sizes(gradient: TensorDesc, pooled: Sizes) -> None:
    """Raises an OperatorError if `input_gradient` does not have the sizes of the forward operator's output."""
    require(sizes_are("input_gradient", gradient, pooled, "must have the sizes of the pooled tensor"))


class MaxUnpooling(Operator, dml="MAX_UNPOOLING"):
    """Zeros, with each element of the input at its row-major index in the output, from `indices`.

    It is the inverse of MAX_POOLING1: `indices` has the input's sizes, and `output` must give its own.  An index beyond
    the output is ignored.  If indices are equal, the last element in row-major order is kept; DirectML leaves that
    undefined.
    """

    heavy: ClassVar = True
    output_keywords: ClassVar = ("sizes",)
    example: ClassVar = (
        "input: [1, 1, 2, 2], indices: {dtype: uint32, sizes: [1, 1, 2, 2], data: [5, 7, 13, 15]}, "
        "output: {sizes: [1, 1, 4, 4]}"
    )

    input: Input
    indices: IndexInput
    output: Output = inferred()

    def infer(self, given: Given) -> Outcome:
        sizes = determined(given["output"].sizes, "output.sizes", "the indices do not determine them")
        return {"output": self.input.like(sizes=sizes)}

    def constraints(self) -> Iterator[Problem]:
        return same_sizes("indices", self.indices, "input", self.input)

    def evaluate(self, x: Array, indices: Array) -> tuple[Array, ...]:
        output = np.zeros(self.output.element_count, x.dtype)
        inside = indices.ravel() < output.size
        output[indices.ravel()[inside]] = x.ravel()[inside]
        return (output.reshape(self.output.sizes),)

    def derivative(self, back: Backward) -> Gradients:
        return [elements_at(back, back.g, back.given[1]), None]
