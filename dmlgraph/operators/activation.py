"""Activations: functions of one tensor that close a layer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import numpy as np

from dmlgraph.errors import Problem
from dmlgraph.operators.axes import axes_problems
from dmlgraph.operators.element_wise import Unary
from dmlgraph.operators.fields import Count, Input, Output, UInts, inferred
from dmlgraph.operators.numerics import accurately, convert, working
from dmlgraph.operators.operator import Array, Operator
from dmlgraph.operators.outputs import Given, Outcome


class ActivationRelu(Unary, dml="ACTIVATION_RELU"):
    """max(0, x)"""

    def function(self, x: Array) -> Array:
        return np.asarray(np.fmax(x, x.dtype.type(0)))


class ActivationSigmoid(Unary, dml="ACTIVATION_SIGMOID"):
    """1 / (1 + e^−x)"""

    def function(self, x: Array) -> Array:
        return accurately(lambda wide: 1 / (1 + np.exp(-wide)), x)


class ActivationTanh(Unary, dml="ACTIVATION_TANH"):
    """tanh x"""

    def function(self, x: Array) -> Array:
        return accurately(np.tanh, x)


class ActivationSoftmax1(Operator, dml="ACTIVATION_SOFTMAX1"):
    """e^x / Σ e^x, the sum over all of `axes` together.

    The greatest element of each set is subtracted first, so that nothing overflows.
    """

    input: Input
    output: Output = inferred()
    axes: Annotated[UInts, Count("AxisCount")]

    def infer(self, given: Given) -> Outcome:
        return {"output": self.input.like()}

    def constraints(self) -> Iterator[Problem]:
        return axes_problems(self.axes, self.input.rank)

    def evaluate(self, *inputs: Array | None) -> tuple[Array, ...]:
        (x,) = inputs
        assert x is not None
        with np.errstate(all="ignore"):
            return (convert(self.apply(working(x)), self.output.dtype),)

    def apply(self, *arrays: Array) -> Array:
        def softmax(wide: Array) -> Array:
            powers = np.exp(wide - wide.max(axis=self.axes, keepdims=True))
            return np.asarray(powers / powers.sum(axis=self.axes, keepdims=True))

        return accurately(softmax, arrays[0])
