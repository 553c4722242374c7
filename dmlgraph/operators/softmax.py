"""Softmax and its variants: functions of all elements along some axes.

The operators without a 1 in their name work along the last axis of matrices, which may have leading dimensions of
size 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, ClassVar

import numpy as np

from dmlgraph import operators as ops
from dmlgraph.base.errors import Problem
from dmlgraph.operators.common.axes import reduced_last, reduced_sizes
from dmlgraph.operators.common.numerics import accurately, convert, working
from dmlgraph.operators.declaration.constraints import sizes_hold
from dmlgraph.operators.declaration.derivative import Backward, Gradients, flat
from dmlgraph.operators.declaration.fields import Axes, AxesDefault, AxisList, Input, Output, inferred
from dmlgraph.operators.declaration.operator import Array, Operator


class AlongAxes(Operator):
    """Base: the output has the input's sizes and data type; `over` returns the axes of the function."""

    function: ClassVar[Callable[..., Array]]

    input: Input
    output: Output = inferred()

    def evaluate(self, x: Array) -> tuple[Array, ...]:
        with np.errstate(all="ignore"):
            return (convert(self.apply(working(x)), self.output.dtype),)

    def over(self, rank: int) -> tuple[int, ...]:
        """The axes of the function, for a tensor of this number of dimensions."""
        raise NotImplementedError

    def apply(self, *arrays: Array) -> Array:
        (x,) = arrays
        return accurately(lambda wide: self.function(wide, self.over(x.ndim)), x)


class LastAxis(AlongAxes):
    """Base of the operators that work along the last axis."""

    def over(self, rank: int) -> tuple[int, ...]:
        return (rank - 1,)

    def constraints(self) -> Iterator[Problem]:
        message = "all sizes except the last two must be 1"
        return sizes_hold(set(self.input.sizes[:-2]) <= {1}, "input", self.input, message, "[…, 1, rows, columns]")


class ChosenAxes(AlongAxes):
    """Base of the operators with a field for their axes; by default the last one."""

    example: ClassVar = "axes: [3]"

    axes: Annotated[AxisList, Axes(AxesDefault.LAST)] = inferred()

    def over(self, rank: int) -> tuple[int, ...]:
        return self.axes


def softmax(x: Array, axes: tuple[int, ...]) -> Array:
    """e^x / Σ e^x; the greatest element is subtracted first, so that nothing overflows."""
    powers = np.exp(x - x.max(axis=axes, keepdims=True))
    return np.asarray(powers / powers.sum(axis=axes, keepdims=True))


def log_softmax(x: Array, axes: tuple[int, ...]) -> Array:
    """x − max − ln Σ e^(x − max)"""
    shifted = x - x.max(axis=axes, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=axes, keepdims=True)))


def hardmax(x: Array, axes: tuple[int, ...]) -> Array:
    """1 at the first greatest element in row-major order over the axes, else 0.

    NaN is not greater than any number, and no number is greater than a NaN that comes first (measured on less than
    1024 elements; DirectML compares more part by part).
    """
    flat = reduced_last(x, axes)
    ranks = np.where(np.isnan(flat), -np.inf, flat)
    ranks[..., 0] = np.where(np.isnan(flat[..., 0]), np.inf, flat[..., 0])
    best = ranks.argmax(-1).reshape(reduced_sizes(x.shape, axes))
    places = np.arange(flat.shape[-1]).reshape([size if axis in axes else 1 for axis, size in enumerate(x.shape)])
    return np.asarray(places == best, x.dtype)


def _softmax_derivative(operator: AlongAxes, back: Backward) -> Gradients:
    return [back.y * (back.g - back.total(back.g * back.y, operator.over(back.x.rank)))]


def _log_softmax_derivative(operator: AlongAxes, back: Backward) -> Gradients:
    return [back.g - back(ops.Exp, back.y) * back.total(back.g, operator.over(back.x.rank))]


class ActivationSoftmax(LastAxis, dml="ACTIVATION_SOFTMAX"):
    """e^x / Σ e^x along the last axis."""

    function: ClassVar = staticmethod(softmax)
    derivative = _softmax_derivative


class ActivationLogSoftmax(LastAxis, dml="ACTIVATION_LOG_SOFTMAX"):
    """ln(e^x / Σ e^x) along the last axis."""

    function: ClassVar = staticmethod(log_softmax)
    derivative = _log_softmax_derivative


class ActivationHardmax(LastAxis, dml="ACTIVATION_HARDMAX"):
    """1 at the first greatest element of each row, else 0."""

    function: ClassVar = staticmethod(hardmax)
    derivative = flat


class ActivationSoftmax1(ChosenAxes, dml="ACTIVATION_SOFTMAX1"):
    """e^x / Σ e^x; the sum is over all of `axes` together, by default over the last axis."""

    function: ClassVar = staticmethod(softmax)
    derivative = _softmax_derivative


class ActivationLogSoftmax1(ChosenAxes, dml="ACTIVATION_LOG_SOFTMAX1"):
    """ln(e^x / Σ e^x); the sum is over all of `axes` together, by default over the last axis."""

    function: ClassVar = staticmethod(log_softmax)
    derivative = _log_softmax_derivative


class ActivationHardmax1(ChosenAxes, dml="ACTIVATION_HARDMAX1"):
    """1 at the first greatest element over all of `axes` together (by default the last), row-major, else 0."""

    function: ClassVar = staticmethod(hardmax)
    derivative = flat
