"""Gradients of element-wise operators: the input's gradient, from the input and the output's gradient."""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np

from dmlgraph.operators.common.element_wise import ElementWise, finite_bound
from dmlgraph.operators.common.numerics import working
from dmlgraph.operators.declaration.derivative import Backward, Gradients
from dmlgraph.operators.declaration.fields import Float, Input, Output, ScalarDataType, ScalarValue, TypedBy, inferred
from dmlgraph.operators.declaration.operator import Array
from dmlgraph.operators.declaration.outputs import Given, Outcome


class Gradient(ElementWise):
    """Base: the gradient passes where a condition on the input holds, and is 0 elsewhere."""

    input: Input
    input_gradient: Input
    output_gradient: Output = inferred()

    def infer(self, given: Given) -> Outcome:
        return {"output_gradient": self.input_gradient.like()}

    def evaluate(self, x: Array, gradient: Array) -> tuple[Array, ...]:
        return (np.where(self.passes(working(x)), gradient, gradient.dtype.type(0)),)

    def passes(self, x: Array) -> Array:
        """Where the gradient passes."""
        raise NotImplementedError

    def derivative(self, back: Backward) -> Gradients:
        return [None, back(type(self), back.x, back.g, **self.attributes)]


class ActivationReluGrad(Gradient, dml="ACTIVATION_RELU_GRAD"):
    """The gradient where the input is above zero."""

    in_place: ClassVar = False

    def passes(self, x: Array) -> Array:
        return np.asarray(x > 0)


class ClipGrad(Gradient, dml="ELEMENT_WISE_CLIP_GRAD"):
    """The gradient where the input is strictly between the bounds, which are converted to its type first.

    For NaN nothing passes.  Bounds of float16 are clamped to ±65504, so nothing passes for its infinities and extremes
    (measured).
    """

    example: ClassVar = "min: 0, max: 6"

    min: Float
    max: Float

    def passes(self, x: Array) -> Array:
        low, high = (finite_bound(number, self.input.dtype) for number in (self.min, self.max))
        return np.asarray((low < x) & (x < high))


class ClipGrad1(Gradient, dml="ELEMENT_WISE_CLIP_GRAD1"):
    """The gradient where the input is strictly between the bounds, which have its type; 0 for NaN."""

    example: ClassVar = "min: 0, max: 6"

    min_max_data_type: ScalarDataType = inferred()
    min: Annotated[ScalarValue, TypedBy("min_max_data_type")]
    max: Annotated[ScalarValue, TypedBy("min_max_data_type")]

    def passes(self, x: Array) -> Array:
        return np.asarray((working(self.min.value) < x) & (x < working(self.max.value)))
