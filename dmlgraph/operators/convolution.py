"""Convolutions of float and of quantized tensors.

Sums are computed in float64: exact for integers, rounded once for floats.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

import numpy as np

from dmlgraph import operators as ops
from dmlgraph.base.errors import Problem
from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.operators.common.numerics import convert
from dmlgraph.operators.common.scales import (
    Quantized,
    along,
    as_channels,
    centred,
    of_quantized_pair,
    paired,
    quantize,
)
from dmlgraph.operators.common.windows import Sizes, Windowed, Windows
from dmlgraph.operators.declaration.constraints import at_least, divides, one_number, one_per_channel, require, size_is
from dmlgraph.operators.declaration.derivative import Backward, Gradients, Tensor
from dmlgraph.operators.declaration.fields import (
    Input,
    NumberType,
    OnePerSpatial,
    OptionalInput,
    Output,
    ScaleInput,
    UInt,
    ZeroPerSpatial,
    inferred,
)
from dmlgraph.operators.declaration.fused import (
    OptionalActivation,
    activate,
    activation_fits,
    activation_fits_level,
)
from dmlgraph.operators.declaration.operator import Array
from dmlgraph.operators.declaration.outputs import Given, Outcome
from dmlgraph.operators.directml_enums import ConvolutionDirection, ConvolutionMode


class FilteredWindows(Windowed):
    """Base of the convolutions: windows as large as the filter, and channels in groups.

    If `group_count` is left out, the tensors determine it: forward it is the input's channels over the filter's.
    """

    meanings: ClassVar = {
        "filter": "The weights of the windows: output channels, input channels of a group, spatial sizes.",
        "filter_zero_point": "The integer of the filter that stands for 0.",
        "group_count": "The number of groups into which the channels are divided.",
    }
    heavy: ClassVar = True

    input: Input
    filter: Input
    output: Output = inferred()
    strides: OnePerSpatial = inferred()
    dilations: OnePerSpatial = inferred()
    start_padding: ZeroPerSpatial = inferred()
    end_padding: ZeroPerSpatial = inferred()
    group_count: UInt = inferred()

    def products(self) -> int:
        """Each element of the output is a sum over a filter."""
        return self.output.element_count * math.prod(self.filter.sizes[1:])

    def fill_in(self, given: Given) -> Mapping[str, Any]:
        return {} if "group_count" in given else {"group_count": self._inferred_groups()}

    def _inferred_groups(self) -> int:
        """The input's channels over the filter's; 1 if that is not a whole number, which is an error later."""
        tensor: TensorDesc = self.input
        if tensor.rank < 2 or self.filter.rank < 2:
            return 1
        groups, rest = divmod(tensor.sizes[1], self.filter.sizes[1])
        return 1 if rest or self.filter.sizes[0] % groups else groups

    @property
    def window(self) -> Windows:
        return self.windows(self.filter.sizes[2:])

    def _taps_field(self, dimension: int) -> str:
        return f"filter.sizes.{dimension + 2}"

    def check_tensors(self) -> None:
        """Raises an OperatorError if input, filter and groups do not fit together."""
        require(self._unequal_tensors())
        require(at_least("group_count", self.group_count))

    def forward_sizes(self) -> Sizes:
        """The output's sizes in the forward direction."""
        self.check_tensors()
        window, tensor, filter_desc, groups = self.window, self.input, self.filter, self.group_count
        channels = tensor.sizes[1]
        require(divides("group_count", groups, channels, "must divide the input's channels"))
        message = "must be the input's channels divided by the groups"
        require(size_is("filter", filter_desc, 1, channels // groups, message))
        require(divides("group_count", groups, filter_desc.sizes[0], "must divide the output's channels"))
        self.check_fits(window, tensor.sizes[2:])
        return (tensor.sizes[0], filter_desc.sizes[0], *window.counts(tensor.sizes[2:]))

    def correlate_centred(self, x: Array, x_zero: Array | None, weights: Array, weights_zero: Array | None) -> Array:
        """The forward sums of integers minus their zero points: exact, because float64 holds every one."""
        x, weights = (each.astype(np.float64) for each in (centred(x, x_zero), centred(weights, weights_zero, axis=0)))
        return correlate(x, weights, self.window, self.group_count)


def correlate(x: Array, weights: Array, windows: Windows, groups: int) -> Array:
    """Each window's products with the filter, summed over taps and channels.

    x {N, IC, …} and weights {OC, IC / groups, taps…}, in float64, give {N, OC, counts…}.
    """
    counts = windows.counts(x.shape[2:])
    padded = windows.pad(x, 0)
    padded = padded.reshape(x.shape[0], groups, -1, *padded.shape[2:])
    weights = weights.reshape(groups, -1, *weights.shape[1:])
    result = np.zeros((x.shape[0], groups, weights.shape[1], math.prod(counts)))
    for tap, place in windows.places(counts):
        result += weights[tap] @ padded[place].reshape(*padded.shape[:3], -1)
    return result.reshape(x.shape[0], -1, *counts)


def scatter(x: Array, weights: Array, windows: Windows, groups: int, sizes: Sizes) -> Array:
    """The transpose of `correlate`: each element adds its multiple of the filter to its window.

    x {N, IC, …} and weights {IC, OC / groups, taps…}, in float64, give {N, OC, sizes…}.
    """
    counts = x.shape[2:]
    columns = x.reshape(x.shape[0], groups, -1, math.prod(counts))
    weights = weights.reshape(groups, -1, *weights.shape[1:])
    result = np.zeros((x.shape[0], groups, weights.shape[2], *windows.padded(sizes)))
    for tap, place in windows.places(counts):
        products = weights[tap].swapaxes(-1, -2) @ columns
        result[place] += products.reshape(*products.shape[:3], *counts)
    return windows.crop(result.reshape(x.shape[0], -1, *result.shape[3:]))


def transposed(
    back: Backward,
    gradient: Tensor,
    weights: Tensor,
    windows: Windows,
    sizes: Sizes,
    *,
    groups: int,
    mode: ConvolutionMode = ConvolutionMode.CROSS_CORRELATION,
) -> Tensor:
    """The gradient of a forward convolution's input, which has these sizes: each element goes back to its window."""
    spans = zip(windows.padded(sizes[2:]), windows.extents, gradient.sizes[2:], windows.strides, strict=True)
    unread = [padded - extent - (count - 1) * stride for padded, extent, count, stride in spans]
    return back(
        ops.Convolution,
        gradient,
        weights,
        direction=ConvolutionDirection.BACKWARD,
        mode=mode,
        strides=windows.strides,
        dilations=windows.dilations,
        start_padding=windows.start,
        end_padding=[max(end - rest, 0) for end, rest in zip(windows.end, unread, strict=True)],
        output_padding=[max(rest - end, 0) for end, rest in zip(windows.end, unread, strict=True)],
        group_count=groups,
    )


class Convolution(FilteredWindows, dml="CONVOLUTION"):
    """activation(convolution + bias), in one to three spatial dimensions.

    Forward: output[o] = Σ over channels c and taps k of input[c, o · stride + k · dilation − start_padding] ·
    filter[o's channel, c, k], with zeros outside; a spatial size is ⌊(padded − extent) / stride⌋ + 1, with an
    extent of 1 + (taps − 1) · dilation.  Backward, the transposed convolution: every input element i adds
    input[i] · filter[k] to output[i · stride + k · dilation − start_padding]; a spatial size is
    (size − 1) · stride + extent − start_padding − end_padding.  In both directions each dimension has `output_padding`
    more elements at its end, which are zero, without a bias, before the activation (measured).
    Mode `convolution` mirrors the filter in every spatial dimension, `cross_correlation` does not.

    Shapes: input {N, IC, …}, filter {OC, IC / group_count, …} forward and {IC, OC / group_count, …} backward,
    bias {1, OC, 1, …}; a bias of one dimension is read in this way.  If `group_count` is left out, it is 1 backward,
    and forward the input's channels over those of the filter.
    """

    meanings: ClassVar = {
        "output_padding": "The elements that are added at the end of the output in each spatial dimension.",
        "mode": "Whether the filter is mirrored (`convolution`) or not (`cross_correlation`).",
        "direction": "Forward, or backward: the transposed convolution.",
    }
    example: ClassVar = (
        "input: [1, 2, 5, 5], filter: [3, 2, 3, 3], bias: [3], strides: [2, 2], start_padding: [1, 1], "
        "end_padding: [1, 1], fused_activation: activation_relu"
    )

    bias: OptionalInput = None
    mode: ConvolutionMode = ConvolutionMode.CROSS_CORRELATION
    direction: ConvolutionDirection = ConvolutionDirection.FORWARD
    strides: OnePerSpatial = inferred()
    dilations: OnePerSpatial = inferred()
    start_padding: ZeroPerSpatial = inferred()
    end_padding: ZeroPerSpatial = inferred()
    output_padding: ZeroPerSpatial = inferred()
    group_count: UInt = inferred()
    fused_activation: OptionalActivation = None

    def products(self) -> int:
        if not self._backward:
            return super().products()
        return self.input.element_count * math.prod(self.filter.sizes[1:])  # each input element times a filter

    @classmethod
    def adapt(cls, inputs: dict[str, Any], attributes: Mapping[str, Any]) -> dict[str, Any]:
        return as_channels(inputs, ("bias",))

    @property
    def _backward(self) -> bool:
        return self.direction is ConvolutionDirection.BACKWARD

    def _inferred_groups(self) -> int:
        return 1 if self._backward else super()._inferred_groups()

    def infer(self, given: Given) -> Outcome:
        batch, channels, *spatial = self._backward_sizes() if self._backward else self.forward_sizes()
        sizes = (size + more for size, more in zip(spatial, self.output_padding, strict=True))
        return {"output": self.input.like(sizes=(batch, channels, *sizes))}

    def _backward_sizes(self) -> Sizes:
        self.check_tensors()
        window, sizes, groups = self.window, self.input.sizes, self.group_count
        message = "must be the input's channels if the direction is backward"
        require(size_is("filter", self.filter, 0, sizes[1], message))
        require(divides("group_count", groups, sizes[1], "must divide the input's channels"))
        spatial = tuple(
            (size - 1) * stride + extent - start - end
            for size, stride, extent, start, end in zip(
                sizes[2:], self.strides, window.extents, self.start_padding, self.end_padding, strict=True
            )
        )
        for dimension, size in enumerate(spatial):
            message = f"the padding leaves nothing of the output along dimension {dimension + 2}"
            got, allowed = f"a size of {size}", "padding that leaves a size of at least 1"
            require(at_least(f"start_padding.{dimension}", size, 1, message, code="sizes", got=got, allowed=allowed))
        return (sizes[0], self.filter.sizes[1] * groups, *spatial)

    def constraints(self) -> Iterator[Problem]:
        yield from one_per_channel("bias", self.bias, self.output.sizes[1], single=False)
        yield from activation_fits(self, self.fused_activation)

    def level_constraints(self, level: FeatureLevel) -> Iterator[Problem]:
        return activation_fits_level(self.fused_activation, level)

    def evaluate(self, x: Array, weights: Array, bias: Array | None) -> tuple[Array, ...]:
        x, weights = x.astype(np.float64), weights.astype(np.float64)
        if self.mode is ConvolutionMode.CONVOLUTION:
            weights = np.flip(weights, tuple(range(2, weights.ndim)))
        with np.errstate(all="ignore"):
            if self._backward:
                spatial = zip(self.output.sizes[2:], self.output_padding, strict=True)
                sizes = tuple(size - more for size, more in spatial)
                result = scatter(x, weights, self.window, self.group_count, sizes)
            else:
                result = correlate(x, weights, self.window, self.group_count)
            if bias is not None:
                result = result + bias.astype(np.float64)
            result = np.pad(result, [(0, 0), (0, 0), *((0, more) for more in self.output_padding)])
            dtype = self.output.dtype
            return (convert(activate(self.fused_activation, result, dtype), dtype),)

    def derivative(self, back: Backward) -> Gradients:
        x, weights, *_ = back.given
        g = back.g
        if any(self.output_padding):
            ends = [size - more for size, more in zip(g.sizes[2:], self.output_padding, strict=True)]
            g = g[(..., *(slice(end) for end in ends))]
        if self._backward:
            of_x = back(
                ops.Convolution,
                g,
                weights,
                mode=self.mode,
                strides=self.strides,
                dilations=self.dilations,
                start_padding=self.start_padding,
                end_padding=self.end_padding,
                group_count=self.group_count,
            )
            of_weights = self._of_weights(back, g, x)
        else:
            of_x = transposed(back, g, weights, self.window, x.sizes, groups=self.group_count, mode=self.mode)
            of_weights = self._of_weights(back, x, g)
        of_bias = None if self.bias is None else back.parameter(g, 2)
        return [of_x, of_weights, of_bias]

    def _of_weights(self, back: Backward, wide: Tensor, narrow: Tensor) -> Tensor:
        """The filter's gradient: how the wide tensor's windows meet the elements of the narrow one.

        It is a convolution whose channels are the batch, with the strides in place of the dilations.
        """
        taps, window = self.filter.sizes[2:], self.window
        each = zip(narrow.sizes[2:], window.strides, window.extents, window.start, strict=True)
        reached = [(count - 1) * stride + extent - start for count, stride, extent, start in each]
        wide = wide[(..., *(slice(max(end, 1)) for end in reached))]  # no window goes further
        groups, (batch, channels, *spatial) = self.group_count, wide.sizes
        turned = wide.reshape(batch, groups, channels // groups, *spatial)
        turned = turned.transpose([2, 1, 0, *range(3, turned.rank)])
        swapped = [1, 0, *range(2, wide.rank)]
        met = back(
            ops.Convolution,
            turned.reshape(channels // groups, groups * batch, *spatial),
            narrow.transpose(swapped),
            strides=self.dilations,
            dilations=self.strides,
            start_padding=self.start_padding,
            end_padding=[max(end - size, 0) for end, size in zip(reached, wide.sizes[2:], strict=True)],
            group_count=groups,
        )
        if met.sizes[2:] != taps:
            met = met[(..., *(slice(tap) for tap in taps))]
        if self.mode is ConvolutionMode.CONVOLUTION:
            met = met[(..., *(slice(None, None, -1) for _ in taps))]
        return met.transpose(swapped)


class ConvolutionInteger(FilteredWindows, dml="CONVOLUTION_INTEGER"):
    """The convolution of quantized tensors, as int32: Σ (input − input_zero_point) · (filter − filter_zero_point).

    Sums wrap modulo 2^32.  It is a forward cross-correlation: windows and shapes are those of CONVOLUTION, and padding
    adds nothing to a sum.  A zero point that is left out is 0.  The input's is one number, the filter's one number or
    {1, OC, 1, …}, one for each output channel; a tensor of one dimension is read in this way.
    """

    multiplies_integers: ClassVar = True
    example: ClassVar = (
        "input: [1, 1, 4, 4], input_zero_point: {dtype: uint8, sizes: [1], data: [128]}, "
        "filter: {dtype: int8, sizes: [2, 1, 3, 3]}"
    )

    input_zero_point: OptionalInput = None
    filter: Annotated[Input, NumberType("input")]
    filter_zero_point: OptionalInput = None

    @classmethod
    def adapt(cls, inputs: dict[str, Any], attributes: Mapping[str, Any]) -> dict[str, Any]:
        return as_channels(inputs, ("input_zero_point", "filter_zero_point"))

    def infer(self, given: Given) -> Outcome:
        return {"output": self.input.like(sizes=self.forward_sizes(), dtype=DataType.INT32)}

    def constraints(self) -> Iterator[Problem]:
        yield from one_number("input_zero_point", self.input_zero_point)
        yield from one_per_channel("filter_zero_point", self.filter_zero_point, self.output.sizes[1])

    def evaluate(self, x: Array, x_zero: Array | None, weights: Array, weights_zero: Array | None) -> tuple[Array, ...]:
        return (self.correlate_centred(x, x_zero, weights, weights_zero).astype(np.int64).astype(np.int32),)


class QuantizedLinearConvolution(FilteredWindows, dml="QUANTIZED_LINEAR_CONVOLUTION"):
    """The convolution of quantized tensors, quantized: a number q stands for (q − zero_point) · scale.

    output = clamp(round((Σ (input − input_zero_point) · (filter − filter_zero_point) + bias) · (input_scale ·
    filter_scale / output_scale)) + output_zero_point), halves to even, in float32 (the order of the steps is
    measured).  The bias is int32 {1, OC, 1, …}, in units of input_scale · filter_scale.  It is a forward
    cross-correlation: windows and shapes are those of CONVOLUTION.  A zero point that is left out is 0.  Scales and
    zero points are one number each, the filter's also {1, OC, 1, …}; a tensor of one dimension is read in this way.
    """

    meanings: ClassVar = {"filter_scale": "The number for which one step of the filter stands."}
    multiplies_integers: ClassVar = True
    example: ClassVar = (
        "input: [1, 1, 4, 4], input_scale: {dtype: float32, sizes: [1], data: [0.5]}, "
        "filter: {dtype: int8, sizes: [2, 1, 3, 3]}, "
        "filter_scale: {dtype: float32, sizes: [2], data: [0.25, 0.125]}, "
        "output_scale: {dtype: float32, sizes: [1], data: [2.0]}, "
        "output_zero_point: {dtype: uint8, sizes: [1], data: [128]}"
    )

    input_scale: ScaleInput
    input_zero_point: OptionalInput = None
    filter: Annotated[Input, NumberType("input")]
    filter_scale: ScaleInput
    filter_zero_point: OptionalInput = None
    bias: Annotated[OptionalInput, NumberType(DataType.INT32)] = None
    output_scale: ScaleInput
    output_zero_point: Annotated[OptionalInput, NumberType("input")] = None

    @classmethod
    def adapt(cls, inputs: dict[str, Any], attributes: Mapping[str, Any]) -> dict[str, Any]:
        channels = as_channels(inputs, tuple(name for name in cls.input_fields if name not in ("input", "filter")))
        return paired(channels)

    def infer(self, given: Given) -> Outcome:
        dtype = given["output"].dtype
        if self.output_zero_point is not None:
            dtype = self.output_zero_point.dtype
        return {"output": self.input.like(sizes=self.forward_sizes(), dtype=dtype or self.input.dtype)}

    def constraints(self) -> Iterator[Problem]:
        channels = self.output.sizes[1]
        for field in ("input_scale", "input_zero_point", "output_scale", "output_zero_point"):
            yield from one_number(field, getattr(self, field))
        for field in ("filter_scale", "filter_zero_point"):
            yield from one_per_channel(field, getattr(self, field), channels)
        yield from one_per_channel("bias", self.bias, channels, single=False)

    @of_quantized_pair
    def evaluate(
        self, x: Quantized, weights: Quantized, bias: Array | None, scale: Array, zero: Array | None
    ) -> tuple[Array, ...]:
        sums = self.correlate_centred(x.steps, x.zero_point, weights.steps, weights.zero_point)
        if bias is not None:
            sums = sums + bias
        rank = x.steps.ndim
        with np.errstate(all="ignore"):
            step = along(x.scale, 1, rank) * along(weights.scale, 1, rank) / along(scale, 1, rank)
            return (quantize(sums.astype(np.float32) * step, zero, self.output.dtype),)
