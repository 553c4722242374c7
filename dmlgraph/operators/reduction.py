"""Reductions: one number for many, along some axes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, ClassVar

import numpy as np

from dmlgraph.errors import Problem
from dmlgraph.operators.axes import axes_problems
from dmlgraph.operators.enums import ReduceFunction
from dmlgraph.operators.fields import Count, Input, Output, UInts, inferred
from dmlgraph.operators.numerics import convert
from dmlgraph.operators.operator import Array, Operator
from dmlgraph.operators.outputs import Given, Outcome
from dmlgraph.tensor import DataType

_INDEX_FUNCTIONS = (ReduceFunction.ARGMAX, ReduceFunction.ARGMIN)

# On an array whose last axis holds the elements to reduce, in their order; floats arrive as float64.
_FUNCTIONS: dict[ReduceFunction, Callable[[Array], Array]] = {
    ReduceFunction.ARGMAX: lambda x: x.argmax(-1),
    ReduceFunction.ARGMIN: lambda x: x.argmin(-1),
    ReduceFunction.AVERAGE: lambda x: x.mean(-1),
    ReduceFunction.L1: lambda x: np.abs(x).sum(-1, dtype=x.dtype),
    ReduceFunction.L2: lambda x: np.sqrt((x * x).sum(-1)),
    ReduceFunction.LOG_SUM: lambda x: np.log(x.sum(-1)),
    ReduceFunction.LOG_SUM_EXP: lambda x: np.log(np.exp(x).sum(-1)),
    ReduceFunction.MAX: lambda x: x.max(-1),
    ReduceFunction.MIN: lambda x: x.min(-1),
    ReduceFunction.MULTIPLY: lambda x: x.prod(-1, dtype=x.dtype),
    ReduceFunction.SUM: lambda x: x.sum(-1, dtype=x.dtype),
    ReduceFunction.SUM_SQUARE: lambda x: (x * x).sum(-1, dtype=x.dtype),
}


class Reduce(Operator, dml="REDUCE"):
    """Reduces the elements along `axes` (all axes, if left out) to one, whose sizes become 1.

    argmin and argmax give the row-major index inside the reduced axes, of the first if there are several; their
    output is uint32 unless another integer type is asked for.  Integers wrap modulo 2^N.
    """

    output_keywords: ClassVar = ("dtype",)

    function: ReduceFunction
    input: Input
    output: Output = inferred()
    axes: Annotated[UInts, Count("AxisCount")] = inferred()

    def fill_in(self) -> Mapping[str, Any]:
        axes: tuple[int, ...] | None = self.axes
        return {"axes": tuple(range(self.input.rank)) if axes is None else axes}

    def infer(self, given: Given) -> Outcome:
        sizes = tuple(1 if axis in self.axes else size for axis, size in enumerate(self.input.sizes))
        dtype = self.input.dtype
        if self.function in _INDEX_FUNCTIONS:
            dtype = given["output"].dtype or DataType.UINT32
        return {"output": self.input.like(sizes=sizes, dtype=dtype)}

    def constraints(self) -> Iterator[Problem]:
        return axes_problems(self.axes, self.input.rank)

    @property
    def _function(self) -> str:
        return str(self.function)

    def evaluate(self, *inputs: Array | None) -> tuple[Array, ...]:
        (x,) = inputs
        assert x is not None
        kept = [axis for axis in range(x.ndim) if axis not in self.axes]
        rows = x.transpose(*kept, *sorted(self.axes)).reshape(*(x.shape[axis] for axis in kept), -1)
        with np.errstate(all="ignore"):
            values = _FUNCTIONS[self.function](rows.astype(np.float64) if self.input.dtype.is_float else rows)
            return (convert(values, self.output.dtype).reshape(self.output.sizes),)
