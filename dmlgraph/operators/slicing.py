"""Slices: elements of a tensor's window at regular steps, and the gradient."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar

import numpy as np

from dmlgraph import operators as ops
from dmlgraph.base.errors import Problem
from dmlgraph.base.tensor import TensorDesc
from dmlgraph.operators.declaration.constraints import at_least, between, require, rule
from dmlgraph.operators.declaration.derivative import Backward, Gradients
from dmlgraph.operators.declaration.fields import Entries, Input, IntPerDimension, Output, UIntPerDimension, inferred
from dmlgraph.operators.declaration.operator import Array, Operator
from dmlgraph.operators.declaration.outputs import Given, Outcome, asked_sizes


class Slice(Operator, dml="SLICE"):
    """output[i] = input[offsets + strides · i] in every dimension; `sizes` are the output's."""

    meanings: ClassVar = {
        "sizes": "The sizes of the output.",
        "offsets": "The first element that is taken in each dimension.",
        "strides": "The step from one element that is taken to the next in each dimension.",
    }
    moves: ClassVar = ("input",)
    order_preserving: ClassVar = "input"
    example: ClassVar = "input: [1, 1, 4, 6], offsets: [0, 0, 1, 0], sizes: [1, 1, 2, 3], strides: [1, 1, 1, 2]"

    input: Input
    output: Output = inferred()
    offsets: UIntPerDimension
    sizes: UIntPerDimension
    strides: Annotated[UIntPerDimension, Entries(default=1)] = inferred()

    def why_copy(self) -> str | None:
        return "takes the whole tensor" if _takes_all(self.input, self.output, self.strides) else None

    def infer(self, given: Given) -> Outcome:
        require(at_least("sizes", self.sizes))
        return {"output": self.input.like(sizes=self.sizes)}

    def constraints(self) -> Iterator[Problem]:
        for axis, (offset, size, stride) in enumerate(zip(self.offsets, self.sizes, self.strides, strict=True)):
            yield from at_least(f"strides.{axis}", stride)
            last, end = offset + stride * (size - 1), self.input.sizes[axis] - 1
            message, got = "the slice reaches beyond the input", f"elements {offset} to {last}"
            yield from rule(last <= end, f"offsets.{axis}", message, "sizes", got=got, allowed=f"0 to {end}")

    def evaluate(self, x: Array) -> tuple[Array, ...]:
        return (x[_steps(self.offsets, self.strides, self.sizes)],)

    def derivative(self, back: Backward) -> Gradients:
        window = {
            "input_window_offsets": self.offsets,
            "input_window_sizes": [(size - 1) * step + 1 for size, step in zip(self.sizes, self.strides, strict=True)],
            "input_window_strides": self.strides,
        }
        return [back(ops.SliceGrad, back.g, sizes=back.x.sizes, **window)]


class Windowed(Operator):
    """Base of the operators with a window: its `input_window_offsets`, `_sizes` and `_strides` in a tensor.

    A positive stride starts at the window's first element, a negative one at its last element.
    """

    meanings: ClassVar = {
        "input_window_offsets": "The first element of the window in each dimension.",
        "input_window_sizes": "The size of the window in each dimension.",
        "input_window_strides": "The step inside the window; a negative one reads it backwards.",
    }

    input_window_offsets: UIntPerDimension
    input_window_sizes: UIntPerDimension
    input_window_strides: Annotated[IntPerDimension, Entries(default=1)] = inferred()

    @property
    def _window(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        return self.input_window_offsets, self.input_window_sizes, self.input_window_strides

    @property
    def _greatest_sizes(self) -> tuple[int, ...]:
        """How many elements the strides reach in the window, by dimension."""
        _, sizes, strides = self._window
        return tuple(1 + (size - 1) // abs(stride) for size, stride in zip(sizes, strides, strict=True))

    def _check_window(self) -> None:
        """Checks the rules on which inference depends."""
        _, sizes, strides = self._window
        require(at_least("input_window_sizes", sizes))
        for axis, stride in enumerate(strides):
            require(rule(stride, f"input_window_strides.{axis}", "must not be zero", "range", got=stride))

    def _window_fits(self, outer: TensorDesc, inner: TensorDesc, inner_field: str) -> Iterator[Problem]:
        """The window is inside the outer tensor, and the elements inside the window."""
        offsets, sizes, _ = self._window
        for axis, (offset, size, most) in enumerate(zip(offsets, sizes, outer.sizes, strict=True)):
            field, message = f"input_window_sizes.{axis}", "the window reaches beyond the tensor"
            got, allowed = f"offset {offset} and size {size}", f"together at most {most}"
            yield from rule(offset + size <= most, field, message, "sizes", got=got, allowed=allowed)
        message = "is more than the strides reach in the window"
        for axis, (size, greatest) in enumerate(zip(inner.sizes, self._greatest_sizes, strict=False)):
            yield from between(f"{inner_field}.sizes.{axis}", size, 1, greatest, message)

    def _elements(self, inner: TensorDesc) -> tuple[Array, ...]:
        """NumPy's indices of the inner tensor's elements in the outer tensor."""
        offsets, sizes, strides = self._window
        starts = tuple(
            offset if stride > 0 else offset + size - 1
            for offset, size, stride in zip(offsets, sizes, strides, strict=True)
        )
        return _steps(starts, strides, inner.sizes)


class Slice1(Windowed, dml="SLICE1"):
    """output[i] = input[start + input_window_strides · i] in every dimension.

    The start is the window's first element, or its last if the stride is negative.  The output has as many elements as
    the strides reach in the window; fewer may be requested: `output: {sizes: …}`.
    """

    moves: ClassVar = ("input",)
    order_preserving: ClassVar = "input"
    example: ClassVar = (
        "input: [1, 1, 2, 6], input_window_offsets: [0, 0, 0, 1], input_window_sizes: [1, 1, 2, 5], "
        "input_window_strides: [1, 1, 1, -2]"
    )

    input: Input
    output: Output = inferred()

    def why_copy(self) -> str | None:
        return "takes the whole tensor" if _takes_all(self.input, self.output, self.input_window_strides) else None

    def infer(self, given: Given) -> Outcome:
        self._check_window()
        return {"output": self.input.like(sizes=given["output"].sizes or self._greatest_sizes)}

    def constraints(self) -> Iterator[Problem]:
        return self._window_fits(self.input, self.output, "output")

    def evaluate(self, x: Array) -> tuple[Array, ...]:
        return (x[self._elements(self.output)],)

    def derivative(self, back: Backward) -> Gradients:
        return [back(ops.SliceGrad, back.g, sizes=back.x.sizes, **self.attributes)]


class SliceGrad(Windowed, dml="SLICE_GRAD"):
    """The gradient of slice1: the output is zero, except output[start + stride · i] = input[i].

    The output has the sizes of slice1's input; they must be given, because nothing determines them.
    """

    output_keywords: ClassVar = ("sizes",)
    example: ClassVar = (
        "input_gradient: [1, 1, 2, 3], output_gradient: {sizes: [1, 1, 2, 6]}, input_window_offsets: [0, 0, 0, 1], "
        "input_window_sizes: [1, 1, 2, 5], input_window_strides: [1, 1, 1, 2]"
    )

    input_gradient: Input
    output_gradient: Output = inferred()

    def infer(self, given: Given) -> Outcome:
        self._check_window()
        return {"output_gradient": self.input_gradient.like(sizes=asked_sizes(given, "output_gradient"))}

    def constraints(self) -> Iterator[Problem]:
        if self.output_gradient.rank == self.input_gradient.rank:
            yield from self._window_fits(self.output_gradient, self.input_gradient, "input_gradient")

    def evaluate(self, gradient: Array) -> tuple[Array, ...]:
        result = np.zeros(self.output_gradient.sizes, gradient.dtype)
        result[self._elements(self.input_gradient)] = gradient
        return (result,)

    def derivative(self, back: Backward) -> Gradients:
        return [back(ops.Slice1, back.g, output={"sizes": back.x.sizes}, **self.attributes)]


def _steps(starts: tuple[int, ...], strides: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[Array, ...]:
    """NumPy's indices of the elements start + stride · i for i below the size, in every dimension."""
    return np.ix_(
        *(start + stride * np.arange(size) for start, stride, size in zip(starts, strides, sizes, strict=True))
    )


def _takes_all(whole: TensorDesc, part: TensorDesc, steps: tuple[int, ...]) -> bool:
    """Whether a slice takes every element, in order."""
    return whole.sizes == part.sizes and all(
        step == 1 or size == 1 for step, size in zip(steps, whole.sizes, strict=True)
    )
