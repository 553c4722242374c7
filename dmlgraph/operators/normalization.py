"""Normalizations: elements minus a mean, divided by a deviation or a norm, then scaled and shifted.

Everything is computed in float64 and rounded once.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dmlgraph import operators as ops
from dmlgraph.base.errors import Problem
from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.tensor import DataType
from dmlgraph.operators.common.numerics import convert, in_range
from dmlgraph.operators.common.scales import as_channels
from dmlgraph.operators.declaration.constraints import at_least, broadcastable, one_of, size_is
from dmlgraph.operators.declaration.derivative import Backward, Gradients, Tensor, present
from dmlgraph.operators.declaration.fields import (
    Axis,
    AxisList,
    Bool,
    Float,
    Input,
    OptionalInput,
    Output,
    UInt,
    inferred,
)
from dmlgraph.operators.declaration.fused import (
    OptionalActivation,
    activate,
    activation_fits,
    activation_fits_level,
)
from dmlgraph.operators.declaration.operator import Array, Operator
from dmlgraph.operators.declaration.outputs import Given, Outcome


def wide(*arrays: Array) -> tuple[Array, ...]:
    """The arrays in float64, so that results with them are float64 too."""
    return tuple(array.astype(np.float64) for array in arrays)


class Normalization(Operator):
    """Base: scale and bias, a fused activation, and an output like the input."""

    input: Input
    output: Output = inferred()
    epsilon: Float
    fused_activation: OptionalActivation = None

    parameters: ClassVar[tuple[str, ...]] = ("scale", "bias")
    fuses_like: ClassVar[str | None] = None  # the operator whose list of activations this one shares

    @classmethod
    def adapt(cls, inputs: dict[str, Any], attributes: Mapping[str, Any]) -> dict[str, Any]:
        return as_channels(inputs, cls.parameters)

    def constraints(self) -> Iterator[Problem]:
        for field in self.parameters:
            yield from broadcastable(field, getattr(self, field), self.input.sizes)
        yield from activation_fits(self, self.fused_activation, self.fuses_like)

    def level_constraints(self, level: FeatureLevel) -> Iterator[Problem]:
        yield from activation_fits_level(self.fused_activation, level)

    def finish(self, normalized: Array, scale: Array | None, bias: Array | None) -> Array:
        """activation(normalized · scale + bias), without absent parts, in the output's data type."""
        result = normalized if scale is None else normalized * scale
        result = result if bias is None else result + bias
        dtype = self.output.dtype
        return convert(activate(self.fused_activation, result, dtype), dtype)


def _batch_gradients(
    back: Backward, operator: type[Operator], mean: Tensor, variance: Tensor, scale_port: int, epsilon: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of input, scale and bias; the operator adds them up over the axes where its parameters have 1.

    Where these have other sizes than one another, they are read as if they were as large as the input.
    """
    scale, bias = (back.channels(present(back.inputs[port])) for port in (scale_port, scale_port + 1))
    parameters = [mean, variance, scale]
    if len({each.sizes for each in parameters}) > 1:
        parameters = [each.broadcast_to(back.x.sizes) for each in parameters]
    of_x, of_scale, of_bias = back.several(operator, back.x, back.g, *parameters, epsilon=epsilon)
    if bias.sizes != scale.sizes:
        of_bias = back.g
    return of_x, back.parameter(of_scale, scale_port), back.parameter(of_bias, scale_port + 1)


class BatchNormalization(Normalization, dml="BATCH_NORMALIZATION"):
    """Normalization by a given mean and variance.

    The output is activation(scale · (input − mean) / √(variance + epsilon) + bias).  Mean, variance, scale and bias
    have size 1 or the input's in each dimension, usually {1, C, 1, …}; a tensor of one dimension is read in this way.
    `spatial` has no effect from feature level 4.0 on.  Below 4.0, if it is false, mean and variance must not have size
    1 where height and width do not.
    """

    meanings: ClassVar = {
        "spatial": "Whether mean and variance are the same for all spatial positions; "
        "no effect from feature level 4.0 on.",
    }
    parameters: ClassVar = ("mean", "variance", "scale", "bias")
    example: ClassVar = (
        "input: [2, 3, 2, 2], mean: [3], variance: [3], scale: {dtype: float32, sizes: [3], data: [1, 2, 3]}, "
        "bias: {dtype: float32, sizes: [3], data: [0, 0.5, -0.5]}, spatial: true, epsilon: 0.00001, "
        "fused_activation: activation_relu"
    )

    mean: Input
    variance: Input
    scale: Input
    bias: Input
    spatial: Bool
    epsilon: Float
    fused_activation: OptionalActivation = None

    def level_constraints(self, level: FeatureLevel) -> Iterator[Problem]:
        yield from super().level_constraints(level)
        if level >= FeatureLevel.V4_0 or self.spatial:
            return
        message = f"must be the input's size at feature level {level} if spatial is false; 1 is legal from 4.0"
        for field in ("mean", "variance"):
            for axis in range(2, self.input.rank):
                yield from size_is(field, getattr(self, field), axis, self.input.sizes[axis], message, "level")

    def evaluate(
        self, x: Array, mean: Array, variance: Array, scale: Array | None, bias: Array | None
    ) -> tuple[Array, ...]:
        x, mean, variance = wide(x, mean, variance)
        with np.errstate(all="ignore"):
            return (self.finish((x - mean) / np.sqrt(variance + self.epsilon), scale, bias),)

    def derivative(self, back: Backward) -> Gradients:
        x, mean, variance = (back.x, *map(back.channels, back.given[1:3]))
        of_x, of_scale, of_bias = _batch_gradients(back, ops.BatchNormalizationGrad, mean, variance, 3, self.epsilon)
        share = of_x * (x - mean) / (variance + self.epsilon) * -0.5
        return [of_x, back.parameter(-of_x, 1), back.parameter(share, 2), of_scale, of_bias]


class BatchNormalizationTraining(Normalization, dml="BATCH_NORMALIZATION_TRAINING"):
    """Normalization by the input's own mean and variance, which are also outputs.

    The output is activation(scale · (input − mean) / √(variance + epsilon) + bias + fused_add).  Mean and variance
    (Σ (x − mean)² / n) are those of the input over the dimensions in which scale and bias have size 1; in the
    other dimensions they have the input's size.  A scale or bias of one dimension is read as {1, C, 1, …}.
    """

    meanings: ClassVar = {
        "fused_add": "A tensor that is added before the activation.",
        "output_mean": "The mean of the input.",
        "output_variance": "The variance of the input.",
    }
    example: ClassVar = "input: [2, 3, 2, 2], scale: [3], bias: [3], epsilon: 0.00001"

    scale: Input
    bias: Input
    fused_add: OptionalInput = None
    output_mean: Output = inferred()
    output_variance: Output = inferred()

    def infer(self, given: Given) -> Outcome:
        return {
            "output": self.input.like(),
            "output_mean": self.scale.like(),
            "output_variance": self.scale.like(),
        }

    def evaluate(self, x: Array, scale: Array, bias: Array, fused_add: Array | None) -> tuple[Array, ...]:
        x, bias = wide(x, bias)
        axes = reduced_axes(self.scale.sizes)
        with np.errstate(all="ignore"):
            mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
            shift = bias if fused_add is None else bias + fused_add
            return (
                self.finish((x - mean) / np.sqrt(variance + self.epsilon), scale, shift),
                convert(mean, self.output_mean.dtype),
                convert(variance, self.output_variance.dtype),
            )

    def derivative(self, back: Backward) -> Gradients:
        """Of mean and variance, too, which are outputs."""
        mean, variance = (present(each) for each in back.outputs[1:])
        operator = ops.BatchNormalizationTrainingGrad
        of_x, of_scale, of_bias = _batch_gradients(back, operator, mean, variance, 1, self.epsilon)
        _, through_mean, through_variance = back.gradients
        count = self.input.element_count // self.scale.element_count
        if through_mean is not None:
            of_x = of_x + through_mean * (1 / count)
        if through_variance is not None:
            of_x = of_x + (back.x - mean) * through_variance * (2 / count)
        return [of_x, of_scale, of_bias, back.g]


def reduced_axes(parameter_sizes: Sequence[int]) -> tuple[int, ...]:
    """The dimensions in which a parameter has size 1: its mean, variance or gradient is computed over them."""
    return tuple(axis for axis, size in enumerate(parameter_sizes) if size == 1)


class MeanVariance(Normalization):
    """Base of the normalizations by the input's own mean and variance along axes."""

    meanings: ClassVar = {"normalize_variance": "Whether the input is also divided by the root of its variance."}

    scale: OptionalInput = None
    bias: OptionalInput = None

    if TYPE_CHECKING:  # fields of the subclasses, each in the order of its struct
        axes: tuple[int, ...]
        normalize_variance: bool

    @property
    def reduced(self) -> tuple[int, ...]:
        """The axes over which mean and variance are computed."""
        axes: tuple[int, ...] = self.axes
        return axes

    def constraints(self) -> Iterator[Problem]:
        for problem in super().constraints():
            field = (problem.field or "").partition(".")[0]
            meant = self._meant(field) if problem.field == f"{field}.sizes.1" else None
            yield problem if meant is None else dataclasses.replace(problem, hint=f"from one dimension, {meant}")

    def doubts(self, ranks: Sequence[int | None]) -> Problem | None:
        for field, rank in zip(("scale", "bias"), ranks[1:], strict=True):
            meant = self._meant(field) if rank == 1 else None
            if meant is not None:
                message = "is read along axis 1, the channels, but the normalised axis has the same size"
                return Problem(message, code="aligned-axis", field=field, hint=meant)
        return None

    def _meant(self, field: str) -> str | None:
        """How to read a tensor of one dimension along the normalised axis, if the sizes fit.

        None along the batch: then, as of several axes, one number for each channel is meant.
        """
        axis, desc = self.reduced[0] if len(self.reduced) == 1 else 0, getattr(self, field, None)
        if desc is None or axis < 2 or desc.element_count == 1:
            return None
        sizes = [1] * self.input.rank
        sizes[axis] = self.input.sizes[axis]
        if desc.sizes != (1, sizes[axis], *(1,) * (self.input.rank - 2)):
            return None
        return f"reshape({', '.join(map(str, sizes))}) reads it along axis {axis}"

    @property
    def uses(self) -> tuple[bool, bool]:
        """Whether the mean is subtracted, and whether the result is divided by the deviation."""
        return True, self.normalize_variance

    def level_constraints(self, level: FeatureLevel) -> Iterator[Problem]:
        yield from super().level_constraints(level)
        scale, bias = self.scale, self.bias
        if level < FeatureLevel.V5_2 and (scale is None) != (bias is None):
            there, missing = ("bias", "scale") if scale is None else ("scale", "bias")
            message = f"must be given where '{there}' is, at feature level {level}; each is legal alone from 5.2"
            yield Problem(message, code="level", field=missing)

    def evaluate(self, x: Array, scale: Array | None, bias: Array | None) -> tuple[Array, ...]:
        (x,) = wide(x)
        use_mean, use_variance = self.uses
        with np.errstate(all="ignore"):
            centred = x - x.mean(self.reduced, keepdims=True) if use_mean else x
            if use_variance:
                variance = np.square(centred).mean(self.reduced, keepdims=True)
                centred = centred / np.sqrt(variance + self.epsilon)
            return (self.finish(centred, scale, bias),)

    def derivative(self, back: Backward) -> Gradients:
        x, use_mean, use_variance = back.x, *self.uses
        scale = back.inputs[1]
        gradient = back.g if scale is None else back.g * back.channels(scale)
        normalized = x - self._average(back, x) if use_mean else x
        if use_variance:
            square = self._average(back, normalized * normalized)
            inverse = back(ops.Recip, back(ops.Sqrt, square + self.epsilon))
            normalized = normalized * inverse
            gradient = (gradient - normalized * self._average(back, gradient * normalized)) * inverse
        if use_mean:
            gradient = gradient - self._average(back, gradient)
        of_scale = None if scale is None else back.parameter(back.g * normalized, 1)
        return [gradient, of_scale, None if self.bias is None else back.parameter(back.g, 2)]

    def _average(self, back: Backward, x: Tensor) -> Tensor:
        return back(ops.Reduce, x, function="average", axes=self.reduced)


class MeanVarianceNormalization(MeanVariance, dml="MEAN_VARIANCE_NORMALIZATION"):
    """Normalization of each image by its own mean and variance.

    The output is activation(scale · (input − mean) / √(variance + epsilon) + bias).  Mean and variance
    (Σ (x − mean)² / n) are those of each image and channel, over height and width; with `cross_channel` those of each
    image, over channels too.  If `normalize_variance` is false, nothing is divided.  Scale and bias have size 1 or the
    input's in each dimension; a tensor of one dimension is read as {1, C, 1, 1}.
    """

    example: ClassVar = "input: [1, 2, 2, 3], cross_channel: false, normalize_variance: true, epsilon: 0.00001"

    cross_channel: Bool
    normalize_variance: Bool
    epsilon: Float
    fused_activation: OptionalActivation = None

    @property
    def reduced(self) -> tuple[int, ...]:
        return tuple(range(1 if self.cross_channel else 2, self.input.rank))


class MeanVarianceNormalization1(MeanVariance, dml="MEAN_VARIANCE_NORMALIZATION1"):
    """Normalization by the input's own mean and variance over `axes`.

    The output is activation(scale · (input − mean) / √(variance + epsilon) + bias).  The variance is
    Σ (x − mean)² / n.  If `normalize_variance` is false, nothing is divided.  Scale and bias have size 1 or the
    input's in each dimension; below feature level 4.0 they have the input's size in the channels' dimension.  A tensor
    of one dimension is read as {1, C, 1, …}.
    """

    example: ClassVar = (
        "input: [1, 2, 2, 3], scale: [1, 1, 1, 3], bias: [1, 1, 1, 3], axes: [3], normalize_variance: true, "
        "epsilon: 0.00001"
    )

    axes: AxisList
    normalize_variance: Bool
    epsilon: Float
    fused_activation: OptionalActivation = None

    def level_constraints(self, level: FeatureLevel) -> Iterator[Problem]:
        yield from super().level_constraints(level)
        if level >= FeatureLevel.V4_0 or self.input.rank < 2:
            return
        message = f"must be the input's channels at feature level {level}; 1 is legal from 4.0"
        for field in ("scale", "bias"):
            yield from size_is(field, getattr(self, field), 1, self.input.sizes[1], message, "level")


class MeanVarianceNormalization2(MeanVariance, dml="MEAN_VARIANCE_NORMALIZATION2"):
    """Normalization by the input's own mean, variance or both over `axes`.

    The output is activation(scale · (input − mean) / √(variance + epsilon) + bias).  The variance is
    Σ (x − mean)² / n.  The documentation does not say what `use_mean` and `use_variance` do.  Here, without `use_mean`
    zero replaces the mean in both formulas, so the division is by the root of the mean square (RMS normalization);
    without `use_variance` there is no division.  The documentation does not list the activations either; here they are
    those of MEAN_VARIANCE_NORMALIZATION1.  Scale and bias, each optional, have size 1 or the input's in each
    dimension; a tensor of one dimension is read as {1, C, 1, …}.
    """

    meanings: ClassVar = {
        "use_mean": "Whether the mean is subtracted.",
        "use_variance": "Whether the input is divided by the root of its variance.",
    }
    fuses_like: ClassVar = MeanVarianceNormalization1.dml
    example: ClassVar = (
        "input: [1, 2, 2, 3], scale: [1, 1, 1, 3], axes: [3], use_mean: false, use_variance: true, epsilon: 0.00001"
    )

    axes: AxisList
    use_mean: Bool
    use_variance: Bool
    epsilon: Float
    fused_activation: OptionalActivation = None

    @property
    def uses(self) -> tuple[bool, bool]:
        return self.use_mean, self.use_variance


class LocalResponse(Operator):
    """Base of local response normalization and its gradient: sums over the neighbourhood of each element."""

    meanings: ClassVar = {"local_size": "The number of elements of the neighbourhood."}

    cross_channel: Bool
    local_size: UInt
    alpha: Float
    beta: Float
    bias: Float

    @property
    def neighbourhood(self) -> tuple[int, ...]:
        """The axes along which the neighbourhood extends."""
        return (1,) if self.cross_channel else (2, 3)

    def constraints(self) -> Iterator[Problem]:
        return at_least("local_size", self.local_size)

    def local_sums(self, x: Array) -> Array:
        """Sums over the neighbourhoods."""
        size = self.local_size
        before, after = (size - 1) // 2, size // 2
        for axis in self.neighbourhood:
            padding = [(0, 0)] * x.ndim
            padding[axis] = (before, after)
            x = np.lib.stride_tricks.sliding_window_view(np.pad(x, padding), size, axis).sum(-1)
        return x

    def bases(self, x: Array, dtype: DataType) -> Array:
        """bias + alpha / size · Σ x² over the neighbourhoods; a sum beyond the type's range is infinite (measured)."""
        sums = in_range(self.local_sums(np.square(x)), dtype)
        return np.asarray(self.bias + self.alpha_share * sums)

    @property
    def alpha_share(self) -> float:
        """alpha for one of the neighbours."""
        return float(self.alpha / self.local_size)

    def sums_of(self, back: Backward, x: Tensor, *, backward: bool = False) -> Tensor:
        """Sums over the neighbourhoods, or, backward, over the elements in whose neighbourhoods an element is."""
        batch, channels, *rest = x.sizes
        size = self.local_size
        taps, sizes = (
            ((size, 1), (batch, 1, channels, math.prod(rest)))
            if self.cross_channel
            else ((size, size), (batch * channels, 1, *rest))
        )
        return back(
            ops.Convolution,
            x.reshape(sizes),
            back.builder.fill(1, (1, 1, *taps), x.dtype),
            start_padding=[(tap - 1) // 2 for tap in taps],
            end_padding=[tap // 2 for tap in taps],
            direction="backward" if backward else "forward",
        ).reshape(x.sizes)


class LocalResponseNormalization(LocalResponse, dml="LOCAL_RESPONSE_NORMALIZATION"):
    """input / (bias + alpha / local_size · Σ x²)^beta; the sum is over the element's neighbourhood.

    With `cross_channel` the neighbourhood is the channels c − ⌊(local_size − 1) / 2⌋ to c + ⌈(local_size − 1) / 2⌉
    that exist; otherwise it is the same range of rows and of columns in the same channel.
    """

    example: ClassVar = "input: [1, 4, 2, 2], cross_channel: true, local_size: 3, alpha: 0.0001, beta: 0.75, bias: 1"

    input: Input
    output: Output = inferred()

    def evaluate(self, x: Array) -> tuple[Array, ...]:
        (x,) = wide(x)
        with np.errstate(all="ignore"):
            bases = self.bases(x, DataType.FLOAT32)
            # Measured: powers are computed by logarithms, which a base below 0 does not have.
            powers = np.where(bases > 0, bases**self.beta, np.exp2(self.beta * np.log2(bases)))
            return (convert(x / powers, self.output.dtype),)

    def derivative(self, back: Backward) -> Gradients:
        if self.local_size % 2 and back.legal(ops.LocalResponseNormalizationGrad):
            return [back(ops.LocalResponseNormalizationGrad, back.x, back.g, **self.attributes)]
        # DirectML's gradient adds up the wrong neighbours of an even size.
        x, g = back.x, back.g
        base = self.sums_of(back, x * x) * self.alpha_share + self.bias
        inverse = back(ops.ConstantPow, base, exponent=-self.beta)
        through = self.sums_of(back, g * x * inverse / base, backward=True)
        return [g * inverse - x * through * (2 * self.alpha_share * self.beta)]


class LpNormalization(Operator, dml="LP_NORMALIZATION"):
    """input / √(norm² + epsilon); the norm along the axis is Σ |x| for p = 1 and √Σ x² for p = 2.

    The documentation has no formula; this one is measured.  The sum and, for p = 1, its square are each stored in the
    tensor's type: rounded to float16, infinite beyond float32.
    """

    example: ClassVar = "input: [1, 1, 2, 3], axis: 3, epsilon: 0.00001, p: 2"

    input: Input
    output: Output = inferred()
    axis: Axis
    epsilon: Float
    p: UInt

    def constraints(self) -> Iterator[Problem]:
        return one_of("p", self.p, (1, 2), "is not a norm of DirectML")

    def evaluate(self, x: Array) -> tuple[Array, ...]:
        (x,) = wide(x)
        with np.errstate(all="ignore"):
            terms = np.abs(x) if self.p == 1 else np.square(x)
            square = self._kept(terms.sum(self.axis, keepdims=True))
            square = self._kept(np.square(square)) if self.p == 1 else square
            return (convert(x / np.sqrt(square + self.epsilon), self.output.dtype),)

    def _kept(self, x: Array) -> Array:
        dtype = self.output.dtype
        return convert(x, dtype).astype(np.float64) if dtype is DataType.FLOAT16 else in_range(x, dtype)

    def derivative(self, back: Backward) -> Gradients:
        x, g, axes = back.x, back.g, [self.axis]
        if self.p == 1:
            norm = back.total(back(ops.Abs, x), axes)
            square, slope = norm * norm, back(ops.Sign, x) * norm
        else:
            square, slope = back.total(x * x, axes), x
        inverse = back(ops.Recip, back(ops.Sqrt, square + self.epsilon))
        return [(g - slope * back.total(g * x, axes) * (inverse * inverse)) * inverse]
