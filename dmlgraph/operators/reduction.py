"""Reductions: one number for the elements along some axes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, ClassVar

import numpy as np

from dmlgraph import operators as ops
from dmlgraph.base.tensor import DataType
from dmlgraph.operators.common.axes import reduced_last, reduced_sizes
from dmlgraph.operators.common.numerics import convert
from dmlgraph.operators.declaration.derivative import Backward, Gradients, Tensor
from dmlgraph.operators.declaration.fields import Axes, AxesDefault, AxisList, Input, Output, inferred
from dmlgraph.operators.declaration.operator import Array, Operator
from dmlgraph.operators.declaration.outputs import Given, Outcome
from dmlgraph.operators.directml_enums import ReduceFunction

_INDEX_FUNCTIONS = (ReduceFunction.ARGMAX, ReduceFunction.ARGMIN)

# Functions of an array whose last axis has the elements to reduce, in order; floats arrive as float64.
_FUNCTIONS: dict[ReduceFunction, Callable[[Array], Array]] = {
    ReduceFunction.ARGMAX: lambda x: index_of(np.argmax, x, -np.inf),
    ReduceFunction.ARGMIN: lambda x: index_of(np.argmin, x, np.inf),
    ReduceFunction.AVERAGE: lambda x: x.mean(-1),
    ReduceFunction.L1: lambda x: np.abs(x).sum(-1, dtype=x.dtype),
    ReduceFunction.L2: lambda x: np.sqrt(_terms(x * x).sum(-1)),
    ReduceFunction.LOG_SUM: lambda x: np.log(x.sum(-1)),
    ReduceFunction.LOG_SUM_EXP: lambda x: np.log(_terms(np.exp(x)).sum(-1)),
    ReduceFunction.MAX: lambda x: _extreme(np.argmax, x, -np.inf),
    ReduceFunction.MIN: lambda x: _extreme(np.argmin, x, np.inf),
    ReduceFunction.MULTIPLY: lambda x: x.prod(-1, dtype=x.dtype),
    ReduceFunction.SUM: lambda x: x.sum(-1, dtype=x.dtype),
    ReduceFunction.SUM_SQUARE: lambda x: _terms(x * x).sum(-1, dtype=x.dtype),
}


def _extreme(find: Callable[..., Array], x: Array, start: float) -> Array:
    """The extreme along the last axis: `start` if all are NaN, and the first of zeros of different signs."""
    numbers = np.where(np.isnan(x), start, x) if x.dtype.kind == "f" else x
    return np.take_along_axis(numbers, find(numbers, axis=-1)[..., None], -1)[..., 0]


def index_of(find: Callable[..., Array], x: Array, last_choice: float) -> Array:
    """The index of the extreme along the last axis; NaN is ignored, unless it comes first: then it is the extreme.

    Measured: DirectML starts from the first element, and no element is greater or less than NaN.
    """
    if x.dtype.kind != "f":
        return find(x, axis=-1)
    found = find(np.where(np.isnan(x), last_choice, x), axis=-1)
    return np.where(np.isnan(x[..., 0]), 0, found)


def _terms(x: Array) -> Array:
    """Terms of a sum, infinite beyond float32's range, because they are computed in float32 (measured)."""
    return x.astype(np.float32).astype(np.float64) if x.dtype.kind == "f" else x


def _extreme_gradient(back: Backward, axes: tuple[int, ...]) -> Tensor:
    """The gradient for the extreme; several share it evenly."""
    extreme = back.choose(back(ops.LogicalEquals, back.x, back.y), back.like(back.x, 1), 0)
    return back.g * extreme / back.total(extreme, axes)


# The gradient of the elements by function, from the gradient of the result; it broadcasts to the elements.
_DERIVATIVES: dict[ReduceFunction, Callable[[Backward, tuple[int, ...]], Tensor]] = {
    ReduceFunction.AVERAGE: lambda back, axes: back.g * (1 / math.prod(back.x.sizes[axis] for axis in axes)),
    ReduceFunction.L1: lambda back, axes: back.g * back(ops.Sign, back.x),
    ReduceFunction.L2: lambda back, axes: back.g * (back.x / back.choose(back.y > 0, back.y, 1)),
    ReduceFunction.LOG_SUM: lambda back, axes: back.g / back.total(back.x, axes),
    ReduceFunction.LOG_SUM_EXP: lambda back, axes: back.g * back(ops.Exp, back.x - back.y),
    ReduceFunction.MAX: _extreme_gradient,
    ReduceFunction.MIN: _extreme_gradient,
    ReduceFunction.SUM: lambda back, axes: back.g,
    ReduceFunction.SUM_SQUARE: lambda back, axes: back.g * back.x * 2,
}


class Reduce(Operator, dml="REDUCE"):
    """Reduces the elements along `axes` (all axes, if left out) to one, whose sizes become 1.

    argmin and argmax give the row-major index inside the reduced axes, that of the first if there are several; their
    output is uint32 unless another integer type is requested.  max and min ignore NaN; of zeros of different signs they
    give the first, DirectML either.  Integers wrap modulo 2^N.
    """

    meanings: ClassVar = {"function": "What becomes of the elements: their sum, maximum, mean and so on."}
    reduces: ClassVar = True
    output_keywords: ClassVar = ("dtype",)
    example: ClassVar = "input: {dtype: float32, sizes: [1, 1, 2, 3]}, function: sum, axes: [2, 3]"

    function: ReduceFunction
    input: Input
    output: Output = inferred()
    axes: Annotated[AxisList, Axes(AxesDefault.ALL)] = inferred()

    @property
    def counts(self) -> bool:
        return self.function not in (ReduceFunction.MAX, ReduceFunction.MIN, *_INDEX_FUNCTIONS)

    def infer(self, given: Given) -> Outcome:
        sizes = reduced_sizes(self.input.sizes, self.axes)
        dtype = self.input.dtype
        if self.function in _INDEX_FUNCTIONS:
            dtype = given["output"].dtype or DataType.UINT32
        return {"output": self.input.like(sizes=sizes, dtype=dtype)}

    @property
    def _function(self) -> str:
        return str(self.function)

    def evaluate(self, x: Array) -> tuple[Array, ...]:
        rows = reduced_last(x, self.axes)
        with np.errstate(all="ignore"):
            values = _FUNCTIONS[self.function](rows.astype(np.float64) if self.input.dtype.is_float else rows)
            return (convert(values, self.output.dtype).reshape(self.output.sizes),)

    def derivative(self, back: Backward) -> Gradients:
        if self.function in _INDEX_FUNCTIONS:
            return [None]
        if self.function is ReduceFunction.MULTIPLY:
            return [self._product_gradient(back)]
        return [_DERIVATIVES[self.function](back, self.axes)]

    def _product_gradient(self, back: Backward) -> Tensor:
        """For each element the product of all others, also where one is zero."""
        kept = [axis for axis in range(self.input.rank) if axis not in self.axes]
        order = [*kept, *self.axes]
        lines = back.x.transpose(order).reshape(math.prod(self.input.sizes[axis] for axis in kept), -1)
        before, after = (
            back(ops.CumulativeProduct, lines, axis=1, axis_direction=direction, has_exclusive_product=True)
            for direction in ("increasing", "decreasing")
        )
        others = (before * after).reshape([self.input.sizes[axis] for axis in order])
        return back.g * others.transpose([order.index(axis) for axis in range(len(order))])
