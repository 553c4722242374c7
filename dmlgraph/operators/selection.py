"""Selection: the greatest and least elements and their indices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np

from dmlgraph import operators as ops
from dmlgraph.base.tensor import DataType
from dmlgraph.operators.common.axes import reduced_last, reduced_sizes, with_size
from dmlgraph.operators.common.numerics import convert
from dmlgraph.operators.declaration.constraints import between, require
from dmlgraph.operators.declaration.derivative import Backward, Gradients
from dmlgraph.operators.declaration.fields import Axes, AxesDefault, Axis, AxisList, Input, Output, UInt, inferred
from dmlgraph.operators.declaration.operator import Array, Operator
from dmlgraph.operators.declaration.outputs import Given, Outcome
from dmlgraph.operators.directml_enums import AxisDirection


class Top(Operator):
    """Base: the first `k` elements along `axis` after sorting, and their indices along it.

    Equal elements are in ascending order of index.  The indices are uint32 unless uint64 is requested.
    """

    meanings: ClassVar = {
        "output_value": "The elements that were found.",
        "output_index": "The indices of the elements that were found.",
        "k": "How many elements are wanted.",
    }

    input: Input
    output_value: Output = inferred()
    output_index: Output = inferred()
    axis: Axis
    k: UInt

    if TYPE_CHECKING:  # a field of some subclasses, a constant of the others

        @property
        def axis_direction(self) -> AxisDirection: ...

    def infer(self, given: Given) -> Outcome:
        size = self.input.sizes[self.axis]
        require(between("k", self.k, 1, size, "is not a possible number of elements along the axis"))
        sizes = with_size(self.input.sizes, self.axis, self.k)
        index_type = given["output_index"].dtype or DataType.UINT32
        return {
            "output_value": self.input.like(sizes=sizes),
            "output_index": self.input.like(sizes=sizes, dtype=index_type),
        }

    def evaluate(self, x: Array) -> tuple[Array, ...]:
        if self.axis_direction is AxisDirection.INCREASING:
            order = np.argsort(x, self.axis, stable=True)
        else:  # the reversed ascending order of the reversed elements, so that equal elements keep their order
            backwards = np.argsort(np.flip(x, self.axis), self.axis, stable=True)
            order = x.shape[self.axis] - 1 - np.flip(backwards, self.axis)
        first = np.take(order, range(self.k), self.axis)
        values = np.take_along_axis(x, first, self.axis)
        return values, first.astype(self.output_index.dtype.numpy)

    def derivative(self, back: Backward) -> Gradients:
        return [back(ops.ScatterElements, back.like(back.x, 0), back.outputs[1], back.g, axis=self.axis)]


class TopK(Top, dml="TOP_K"):
    """The `k` greatest elements along `axis`, greatest first, and their indices along it.

    Equal elements are in ascending order of index; the position of NaNs is undefined.  The indices are uint32 unless
    uint64 is requested: `output_index: {dtype: uint64}`.
    """

    example: ClassVar = "input: [1, 1, 2, 3], axis: 3, k: 2"
    axis_direction: ClassVar = AxisDirection.DECREASING


class TopK1(Top, dml="TOP_K1"):
    """The `k` greatest (decreasing) or least (increasing) elements along `axis`, in that order, and their indices.

    By default `axis_direction` is decreasing: the greatest elements, as in TOP_K.
    Equal elements are in ascending order of index in either direction; the position of NaNs is undefined.  The indices
    are uint32 unless uint64 is requested: `output_index: {dtype: uint64}`.
    """

    meanings: ClassVar = {"axis_direction": "Whether the greatest or the least elements are wanted."}
    example: ClassVar = "input: [1, 1, 2, 3], axis: 3, k: 2, axis_direction: increasing"

    axis_direction: AxisDirection = AxisDirection.DECREASING


class ArgExtreme(Operator):
    """Base: the row-major index of an extreme element inside the reduced axes, whose sizes become 1.

    If there are several, it is the first (increasing) or the last (decreasing).  The output is uint32 unless another
    integer type of 32 or 64 bits is requested.
    """

    reduces: ClassVar = True
    extreme: ClassVar[np.ufunc]  # the extreme of two elements; if one is NaN, the other
    output_keywords: ClassVar = ("dtype",)
    example: ClassVar = "axes: [2, 3], axis_direction: increasing"

    input: Input
    output: Output = inferred()
    axes: Annotated[AxisList, Axes(AxesDefault.ALL)] = inferred()
    axis_direction: AxisDirection = AxisDirection.INCREASING

    def infer(self, given: Given) -> Outcome:
        sizes = reduced_sizes(self.input.sizes, self.axes)
        return {"output": self.input.like(sizes=sizes, dtype=given["output"].dtype or DataType.UINT32)}

    def evaluate(self, x: Array) -> tuple[Array, ...]:
        rows = reduced_last(x, self.axes)
        is_extreme = rows == self.extreme.reduce(rows, axis=-1, keepdims=True)
        if self.axis_direction is AxisDirection.INCREASING:
            index = is_extreme.argmax(-1)
        else:
            index = rows.shape[-1] - 1 - is_extreme[..., ::-1].argmax(-1)
        index = np.where(np.isnan(rows[..., 0]), 0, index)  # comparisons with NaN are false
        return (convert(index, self.output.dtype).reshape(self.output.sizes),)


class Argmin(ArgExtreme, dml="ARGMIN"):
    """The row-major index of the least element inside `axes` (all axes, if left out), whose sizes become 1.

    If there are several, it is the first (axis_direction increasing) or the last (decreasing).  The output is uint32
    unless another integer type is requested.  NaNs are ignored, unless the first element is NaN: then the index is 0
    (measured; not for 1024 elements or more, which DirectML compares part by part).
    """

    meanings: ClassVar = {"axis_direction": "Which of several equal elements is taken: the first or the last."}
    extreme: ClassVar = np.fmin


class Argmax(ArgExtreme, dml="ARGMAX"):
    """The row-major index of the greatest element inside `axes` (all axes, if left out), whose sizes become 1.

    If there are several, it is the first (axis_direction increasing) or the last (decreasing).  The output is uint32
    unless another integer type is requested.  NaNs are ignored, unless the first element is NaN: then the index is 0
    (measured; not for 1024 elements or more, which DirectML compares part by part).
    """

    meanings: ClassVar = {"axis_direction": "Which of several equal elements is taken: the first or the last."}
    extreme: ClassVar = np.fmax
