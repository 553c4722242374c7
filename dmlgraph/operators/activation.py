"""Activations: element-wise functions of one tensor, used at the end of a layer.

Those of float16 are rounded once; DirectML rounds every step of most of them to float16 (measured).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from dmlgraph import operators as ops
from dmlgraph.base.errors import Problem
from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.scalar import Scalar
from dmlgraph.base.tensor import DataType
from dmlgraph.operators.common.element_wise import ElementWise, Unary, between
from dmlgraph.operators.common.numerics import accurate, accurately, convert, erf, greater
from dmlgraph.operators.declaration.constraints import at_least
from dmlgraph.operators.declaration.derivative import Backward, Gradients, Tensor, by_slope, passing
from dmlgraph.operators.declaration.fields import Float, Input, Output, inferred
from dmlgraph.operators.declaration.operator import Array, Operator
from dmlgraph.operators.declaration.traits import AffineMap, Bounds


class Activation(Unary):
    """Base: of float16, too, the function is rounded once."""

    finite_only: ClassVar = True

    def half(self, x: Array) -> Array:
        return self.function(x.astype(np.float32))


class ActivationIdentity(Activation, dml="ACTIVATION_IDENTITY"):
    """The input, unchanged."""

    def with_scale_bias(self) -> tuple[type[Operator], Mapping[str, Any]]:
        return ops.Identity, {}

    def why_copy(self) -> str:
        return "a copy of its input"

    def function(self, x: Array) -> Array:
        return x

    @by_slope
    def derivative(self, back: Backward, x: Tensor) -> float:
        return 1.0


class ActivationLinear(Activation, dml="ACTIVATION_LINEAR"):
    """A straight line: alpha · x + beta."""

    example: ClassVar = "alpha: 2, beta: 1"

    alpha: Float
    beta: Float

    def affine(self, numbers: Sequence[Scalar | None]) -> AffineMap | None:
        return AffineMap(self.alpha, self.beta)

    def function(self, x: Array) -> Array:
        return accurately(lambda wide: self.alpha * wide + self.beta, x)

    @by_slope
    def derivative(self, back: Backward, x: Tensor) -> float:
        return self.alpha


class ActivationRelu(Activation, dml="ACTIVATION_RELU"):
    """The rectified linear unit: max(0, x)."""

    idempotent: ClassVar = True

    def bounds(self, numbers: Sequence[Scalar | None]) -> Bounds | None:
        return Bounds.above(0, self.input.dtype)

    def with_scale_bias(self) -> tuple[type[Operator], Mapping[str, Any]]:
        return ops.Threshold, {"min": 0.0}  # not CLIP: for NaN both of these give 0

    def function(self, x: Array) -> Array:
        return greater(x, x.dtype.type(0))

    def derivative(self, back: Backward) -> Gradients:
        # Of the output, which has the input's sign, so that the function can be fused into what computes its input.
        return [back(ops.ActivationReluGrad, back.y, back.g)]


class ActivationLeakyRelu(Activation, dml="ACTIVATION_LEAKY_RELU"):
    """x; alpha · x below zero."""

    alpha: Float = 0.01

    def function(self, x: Array) -> Array:
        return accurately(lambda wide: np.where(wide >= 0, wide, self.alpha * wide), x)

    def derivative(self, back: Backward) -> Gradients:
        sign = back.y if self.alpha > 0 else back.x
        return [back.choose(sign < 0, back.g * self.alpha, back.g)]


class ActivationThresholdedRelu(Activation, dml="ACTIVATION_THRESHOLDED_RELU"):
    """x above alpha, else 0.

    float32 gives 0 where x ≤ alpha, float16 where not x > alpha (measured): NaN stays NaN in float32, and is 0 in
    float16.
    """

    alpha: Float = 1.0

    def function(self, x: Array) -> Array:
        return self.above(x, self.input.dtype)

    def apply_fused(self, x: Array, dtype: DataType) -> Array:
        return self.above(x, dtype)

    def above(self, x: Array, dtype: DataType) -> Array:
        """The function of x for a tensor of this data type."""
        passes = x > self.alpha if dtype is DataType.FLOAT16 else ~(x <= self.alpha)
        return np.where(passes, x, x.dtype.type(0))

    @passing
    def derivative(self, back: Backward, x: Tensor) -> Tensor:
        return x > self.alpha


class ActivationParameterizedRelu(ElementWise, dml="ACTIVATION_PARAMETERIZED_RELU"):
    """x; slope · x below zero.  The slope is a tensor that broadcasts to the input."""

    meanings: ClassVar = {"slope": "The factor of negative elements; it broadcasts to the input."}
    finite_only: ClassVar = True

    input: Input
    slope: Input
    output: Output = inferred()

    def apply(self, *arrays: Array) -> Array:
        x, slope = arrays
        return np.where(x >= 0, x, x * slope)

    def derivative(self, back: Backward) -> Gradients:
        x, slope = back.given
        return [back.choose(x < 0, back.g * slope, back.g), back.choose(x < 0, back.g * x, 0)]


class ActivationElu(Activation, dml="ACTIVATION_ELU"):
    """x; alpha · (e^x − 1) below zero."""

    alpha: Float = 1.0

    def function(self, x: Array) -> Array:
        return accurately(lambda wide: np.where(wide >= 0, wide, self.alpha * np.expm1(wide)), x)

    @by_slope
    def derivative(self, back: Backward, x: Tensor) -> Tensor:
        return _elu_slope(back, x, self.alpha, 1.0)


class ActivationCelu(Activation, dml="ACTIVATION_CELU"):
    """max(0, x) + min(0, alpha · (e^(x / alpha) − 1)); 0 for NaN (measured)."""

    alpha: Float = 1.0

    def function(self, x: Array) -> Array:
        return accurately(self._bent, x)

    def _bent(self, x: Array) -> Array:
        below = self.alpha * np.expm1(x / self.alpha)
        return np.asarray(np.where(x > 0, x, 0.0) + np.where(below < 0, below, 0.0))

    @by_slope
    def derivative(self, back: Backward, x: Tensor) -> Tensor:
        if self.alpha == 0:
            return back.choose(x > 0, back.like(x, 1), 0)  # it is RELU then
        return back(ops.Exp, back(ops.Min, x, 0) * (1 / self.alpha))


class ActivationScaledElu(Activation, dml="ACTIVATION_SCALED_ELU"):
    """gamma · x; gamma · alpha · (e^x − 1) below zero."""

    meanings: ClassVar = {"gamma": "The factor of the whole function."}

    alpha: Float = 1.6732631921768188
    gamma: Float = 1.0507010221481323

    def function(self, x: Array) -> Array:
        return accurately(lambda wide: self.gamma * np.where(wide >= 0, wide, self.alpha * np.expm1(wide)), x)

    @by_slope
    def derivative(self, back: Backward, x: Tensor) -> Tensor:
        return _elu_slope(back, x, self.alpha * self.gamma, self.gamma)


class ActivationSigmoid(Activation, dml="ACTIVATION_SIGMOID"):
    """The logistic function: 1 / (1 + e^−x)."""

    def function(self, x: Array) -> Array:
        return accurately(_sigmoid, x)

    @by_slope
    def derivative(self, back: Backward, x: Tensor) -> Tensor:
        return back.y * (1 - back.y)


class ActivationHardSigmoid(Activation, dml="ACTIVATION_HARD_SIGMOID"):
    """max(0, min(alpha · x + beta, 1)); 0 for NaN (measured)."""

    alpha: Float = 0.2
    beta: Float = 0.5

    def function(self, x: Array) -> Array:
        return accurately(lambda wide: _unit(self.alpha * wide + self.beta), x)

    def derivative(self, back: Backward) -> Gradients:
        return [between(back, back.x * self.alpha + self.beta, back.g * self.alpha, 0, 1)]


class ActivationTanh(Activation, dml="ACTIVATION_TANH"):
    """The hyperbolic tangent of x."""

    def with_scale_bias(self) -> tuple[type[Operator], Mapping[str, Any]]:
        return ops.Tanh, {}

    function: ClassVar = accurate(np.tanh)

    @by_slope
    def derivative(self, back: Backward, x: Tensor) -> Tensor:
        return 1 - back.y * back.y


class ActivationScaledTanh(Activation, dml="ACTIVATION_SCALED_TANH"):
    """The hyperbolic tangent, scaled: alpha · tanh(beta · x)."""

    alpha: Float = 1.0
    beta: Float = 0.5

    def function(self, x: Array) -> Array:
        return accurately(lambda wide: self.alpha * np.tanh(self.beta * wide), x)

    @by_slope
    def derivative(self, back: Backward, x: Tensor) -> Tensor:
        unit = back(ops.ActivationTanh, x * self.beta)
        return (1 - unit * unit) * (self.alpha * self.beta)


class ActivationSoftplus(Activation, dml="ACTIVATION_SOFTPLUS"):
    """ln(1 + e^(steepness · x)) / steepness; below feature level 6.4 the steepness is at least 1."""

    meanings: ClassVar = {"steepness": "How fast the function bends."}

    steepness: Float = 1.0

    def level_constraints(self, level: FeatureLevel) -> Iterator[Problem]:
        if level < FeatureLevel.V6_4:
            message = f"must be at least 1 at feature level {level}; less is legal from 6.4"
            yield from at_least("steepness", self.steepness, 1, message, code="level", allowed="1 or more")

    def function(self, x: Array) -> Array:
        return accurately(lambda wide: np.logaddexp(0, self.steepness * wide) / self.steepness, x)

    @by_slope
    def derivative(self, back: Backward, x: Tensor) -> Tensor:
        return back(ops.ActivationSigmoid, x * self.steepness)


class ActivationParametricSoftplus(Activation, dml="ACTIVATION_PARAMETRIC_SOFTPLUS"):
    """A softplus with any slope and height: alpha · ln(1 + e^(beta · x))."""

    example: ClassVar = "alpha: 1, beta: 2"

    alpha: Float
    beta: Float

    def function(self, x: Array) -> Array:
        return accurately(lambda wide: self.alpha * np.logaddexp(0, self.beta * wide), x)

    @by_slope
    def derivative(self, back: Backward, x: Tensor) -> Tensor:
        return back(ops.ActivationSigmoid, x * self.beta) * (self.alpha * self.beta)


class ActivationSoftsign(Activation, dml="ACTIVATION_SOFTSIGN"):
    """x mapped to numbers between −1 and 1: x / (1 + |x|)."""

    def function(self, x: Array) -> Array:
        return accurately(lambda wide: wide / (1 + np.abs(wide)), x)

    @by_slope
    def derivative(self, back: Backward, x: Tensor) -> Tensor:
        share = 1 / (back(ops.Abs, x) + 1)
        return share * share


class ActivationShrink(Activation, dml="ACTIVATION_SHRINK"):
    """x − bias above the threshold, x + bias below −threshold, else 0.

    Integers are computed in float32 and rounded to nearest even.  Beyond the type's range 8 and 32 bits saturate, and
    16 bits keep the low half of a 32-bit integer (measured).
    """

    meanings: ClassVar = {"threshold": "The bound: elements nearer to zero become 0."}

    bias: Float = 0.0
    threshold: Float = 0.5

    def function(self, x: Array) -> Array:
        if x.dtype.kind == "f":
            return _shrink(x, np.float32(self.bias), np.float32(self.threshold))
        shrunk = np.rint(_shrink(x.astype(np.float32), np.float32(self.bias), np.float32(self.threshold)))
        if x.dtype.itemsize == 2:
            return convert(shrunk, DataType.INT32 if x.dtype.kind == "i" else DataType.UINT32)
        return shrunk

    @passing
    def derivative(self, back: Backward, x: Tensor) -> Tensor:
        return back(ops.Abs, x) > self.threshold


class ActivationGelu(Activation, dml="ACTIVATION_GELU"):
    """The Gaussian error linear unit: ½ x (1 + erf(x / √2))."""

    def function(self, x: Array) -> Array:
        return accurately(lambda wide: 0.5 * wide * (1 + erf(wide / np.sqrt(2))), x)

    @by_slope
    def derivative(self, back: Backward, x: Tensor) -> Tensor:
        below = back(ops.Erf, x * math.sqrt(0.5)) * 0.5 + 0.5
        return below + x * back(ops.Exp, x * x * -0.5) * (1 / math.sqrt(2 * math.pi))


class ActivationSwish(Activation, dml="ACTIVATION_SWISH"):
    """x times a sigmoid of x: x / (1 + e^(−sigmoid_input_scale · x))."""

    meanings: ClassVar = {"sigmoid_input_scale": "The factor of the sigmoid's argument."}
    in_place: ClassVar = False
    example: ClassVar = "sigmoid_input_scale: 1"

    sigmoid_input_scale: Float

    def function(self, x: Array) -> Array:
        return accurately(lambda wide: wide * _sigmoid(self.sigmoid_input_scale * wide), x)

    @by_slope
    def derivative(self, back: Backward, x: Tensor) -> Tensor:
        share = back(ops.ActivationSigmoid, x * self.sigmoid_input_scale)
        return share + back.y * (1 - share) * self.sigmoid_input_scale


class ActivationHardSwish(Activation, dml="ACTIVATION_HARD_SWISH"):
    """x times a hard sigmoid of x: x · max(0, min(alpha · x + beta, 1))."""

    in_place: ClassVar = False
    example: ClassVar = "alpha: 0.16666667, beta: 0.5"

    alpha: Float
    beta: Float

    def function(self, x: Array) -> Array:
        return accurately(lambda wide: wide * _unit(self.alpha * wide + self.beta), x)

    def derivative(self, back: Backward) -> Gradients:
        line = back.x * self.alpha + self.beta
        bent = between(back, line, back.g * back.x * self.alpha, 0, 1)
        return [back.g * back(ops.Clip, line, min=0, max=1) + bent]


def _elu_slope(back: Backward, x: Tensor, below: float, above: float) -> Tensor:
    """above; below · e^x below zero."""
    return back.choose(x < 0, back(ops.Exp, back(ops.Min, x, 0)) * below, above)


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _unit(x: Array) -> Array:
    """x clamped to [0, 1]; NaN becomes 0."""
    return np.asarray(np.where(x > 0, np.minimum(x, 1), 0))


def _shrink(x: Array, bias: Any, threshold: Any) -> Array:
    return np.asarray(np.where(x > threshold, x - bias, np.where(x < -threshold, x + bias, x.dtype.type(0))))
