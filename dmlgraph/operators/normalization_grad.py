"""Gradients of normalizations: the gradients of the input and the parameters, from the gradient of the output.

Everything is computed in float64 and rounded once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from dmlgraph.base.errors import Problem
from dmlgraph.base.tensor import DataType
from dmlgraph.operators.common.numerics import convert
from dmlgraph.operators.common.scales import as_channels
from dmlgraph.operators.declaration.constraints import broadcastable
from dmlgraph.operators.declaration.fields import Float, Input, Output, inferred
from dmlgraph.operators.declaration.operator import Array, Operator
from dmlgraph.operators.declaration.outputs import Given, Outcome
from dmlgraph.operators.normalization import LocalResponse, reduced_axes, wide

SECOND = "the second derivative of a normalization is not written"


class BatchGradient(Operator):
    """Base: the gradients of batch normalization's input, scale and bias."""

    no_derivative: ClassVar = SECOND
    meanings: ClassVar = {
        "output_scale_gradient": "The gradient of the scale.",
        "output_bias_gradient": "The gradient of the bias.",
    }
    heavy: ClassVar = True

    input: Input
    input_gradient: Input
    mean: Input
    variance: Input
    scale: Input
    output_gradient: Output = inferred()
    output_scale_gradient: Output = inferred()
    output_bias_gradient: Output = inferred()
    epsilon: Float

    parameters: ClassVar = ("mean", "variance", "scale")

    @classmethod
    def adapt(cls, inputs: dict[str, Any], attributes: Mapping[str, Any]) -> dict[str, Any]:
        return as_channels(inputs, cls.parameters)

    def infer(self, given: Given) -> Outcome:
        return {
            "output_gradient": self.input.like(),
            "output_scale_gradient": self.scale.like(),
            "output_bias_gradient": self.scale.like(),
        }

    def constraints(self) -> Iterator[Problem]:
        for field in self.parameters:
            yield from broadcastable(field, getattr(self, field), self.input.sizes)

    def evaluate(self, x: Array, gradient: Array, mean: Array, variance: Array, scale: Array) -> tuple[Array, ...]:
        x, gradient, mean, variance, scale = wide(x, gradient, mean, variance, scale)
        axes = reduced_axes(self.scale.sizes)
        with np.errstate(all="ignore"):
            inverse = 1 / np.sqrt(variance + self.epsilon)
            results = (
                scale * inverse * self.passed(x - mean, gradient, variance, axes),
                (gradient * (x - mean)).sum(axes, keepdims=True) * inverse,
                gradient.sum(axes, keepdims=True),
            )
        dtype: DataType = self.input.dtype
        return tuple(convert(result, dtype) for result in results)

    def passed(self, centred: Array, gradient: Array, variance: Array, axes: tuple[int, ...]) -> Array:
        """The gradient minus its parts through mean and variance, from input − mean."""
        raise NotImplementedError


class BatchNormalizationGrad(BatchGradient, dml="BATCH_NORMALIZATION_GRAD"):
    """The gradients of BATCH_NORMALIZATION; mean and variance are constants.

    output_gradient = input_gradient · scale / √(variance + epsilon); output_scale_gradient =
    Σ input_gradient · (input − mean) / √(variance + epsilon); output_bias_gradient = Σ input_gradient; the sums
    are over the dimensions in which mean, variance and scale have size 1.  A parameter of one dimension is read
    as {1, C, 1, …}.
    """

    example: ClassVar = (
        "input: [2, 3, 2, 2], input_gradient: [2, 3, 2, 2], mean: [3], "
        "variance: {dtype: float32, sizes: [3], data: [1, 2, 3]}, scale: [3], epsilon: 0.00001"
    )

    def passed(self, centred: Array, gradient: Array, variance: Array, axes: tuple[int, ...]) -> Array:
        return gradient


class BatchNormalizationTrainingGrad(BatchGradient, dml="BATCH_NORMALIZATION_TRAINING_GRAD"):
    """The gradients of BATCH_NORMALIZATION_TRAINING, whose mean and variance come from the input.

    output_gradient = scale / √(variance + epsilon) · (input_gradient − average(input_gradient) − (input − mean) ·
    average(input_gradient · (input − mean)) / (variance + epsilon)); output_scale_gradient = Σ input_gradient ·
    (input − mean) / √(variance + epsilon); output_bias_gradient = Σ input_gradient; averages and sums are over the
    dimensions in which mean, variance and scale have size 1.  The documentation uses the input's own average, but
    DirectML uses the given mean (measured).  A parameter of one dimension is read as {1, C, 1, …}.
    """

    example: ClassVar = (
        "input: [2, 3, 2, 2], input_gradient: [2, 3, 2, 2], mean: [3], "
        "variance: {dtype: float32, sizes: [3], data: [1, 2, 3]}, scale: [3], epsilon: 0.00001"
    )

    def passed(self, centred: Array, gradient: Array, variance: Array, axes: tuple[int, ...]) -> Array:
        share = (gradient * centred).mean(axes, keepdims=True) / (variance + self.epsilon)
        return np.asarray(gradient - gradient.mean(axes, keepdims=True) - centred * share)


class LocalResponseNormalizationGrad(LocalResponse, dml="LOCAL_RESPONSE_NORMALIZATION_GRAD"):
    """The gradient of LOCAL_RESPONSE_NORMALIZATION's input.

    With s = bias + alpha / local_size · Σ x² over an element's neighbourhood: output_gradient = input_gradient ·
    s^−beta − 2 · alpha · beta / local_size · input · Σ input_gradient · input · s^(−beta − 1).  The last sum is over
    the neighbourhood too (measured).  So for an even local_size, whose neighbourhoods are not symmetric, it is not the
    exact derivative, which sums over the elements whose neighbourhoods contain the element.
    """

    no_derivative: ClassVar = SECOND
    heavy: ClassVar = True
    example: ClassVar = (
        "input: [1, 4, 2, 2], input_gradient: [1, 4, 2, 2], cross_channel: true, local_size: 3, alpha: 0.0001, "
        "beta: 0.75, bias: 1"
    )

    input: Input
    input_gradient: Input
    output_gradient: Output = inferred()

    def evaluate(self, x: Array, gradient: Array) -> tuple[Array, ...]:
        x, gradient = wide(x, gradient)
        with np.errstate(all="ignore"):
            bases = self.bases(x, self.input.dtype)
            through_sums = self.local_sums(gradient * x * bases ** (-self.beta - 1))
            result = gradient * bases**-self.beta - 2 * self.alpha_share * self.beta * x * through_sums
            return (convert(result, self.output_gradient.dtype),)
