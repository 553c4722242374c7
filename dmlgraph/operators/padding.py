"""Padding: a tensor with elements added at both ends of its dimensions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from dmlgraph import operators as ops
from dmlgraph.base.errors import Problem
from dmlgraph.base.levels import FeatureLevel
from dmlgraph.operators.common.numerics import cut
from dmlgraph.operators.declaration.derivative import Backward, Gradients
from dmlgraph.operators.declaration.fields import (
    Entries,
    Float,
    Input,
    Output,
    ScalarDataType,
    ScalarValue,
    TypedBy,
    UIntPerDimension,
    inferred,
    zero,
)
from dmlgraph.operators.declaration.operator import Array, Operator
from dmlgraph.operators.declaration.outputs import Given, Outcome
from dmlgraph.operators.directml_enums import PaddingMode

Paddings = Annotated[UIntPerDimension, Entries(default=0)]

_SINCE = {PaddingMode.SYMMETRIC: FeatureLevel.V3_0, PaddingMode.WRAP: FeatureLevel.V6_4}


def _reflected(i: Array, size: int) -> Array:
    period = max(2 * size - 2, 1)
    i = i % period
    return np.where(i < size, i, period - i)


def _mirrored(i: Array, size: int) -> Array:
    i = i % (2 * size)
    return np.where(i < size, i, 2 * size - 1 - i)


# By mode: the index, in an input of `size` elements, of the element at index i; i is negative before the first.
_SOURCE: dict[PaddingMode, Callable[[Array, int], Array]] = {
    PaddingMode.EDGE: lambda i, size: i.clip(0, size - 1),
    PaddingMode.REFLECTION: _reflected,
    PaddingMode.SYMMETRIC: _mirrored,
    PaddingMode.WRAP: lambda i, size: i % size,
}


class Pad(Operator):
    """Base: subclasses have the fields from `padding_value` on, including `start_padding` and `end_padding`."""

    meanings: ClassVar = {
        "padding_mode": "What is in the padding: a value, or elements of the input.",
        "padding_value": "The number in the padding.",
    }
    moves: ClassVar = ("input",)

    if TYPE_CHECKING:  # fields of the subclasses, each in the order of its struct
        start_padding: tuple[int, ...]
        end_padding: tuple[int, ...]

    input: Input
    output: Output = inferred()
    padding_mode: PaddingMode

    def padded_with(self) -> Any:
        return self.constant() if self.padding_mode is PaddingMode.CONSTANT else None

    def why_copy(self) -> str | None:
        return "pads by nothing" if not any(self.start_padding) and not any(self.end_padding) else None

    def infer(self, given: Given) -> Outcome:
        sizes = [
            start + size + end
            for start, size, end in zip(self.start_padding, self.input.sizes, self.end_padding, strict=True)
        ]
        return {"output": self.input.like(sizes=sizes)}

    def level_constraints(self, level: FeatureLevel) -> Iterator[Problem]:
        mode = self.padding_mode
        since = _SINCE.get(mode)
        if since is not None and level < since:
            message = f"does not exist at feature level {level}; legal from {since}"
            yield Problem(message, code="level", field="padding_mode", got=str(mode))

    def evaluate(self, x: Array) -> tuple[Array, ...]:
        if self.padding_mode is PaddingMode.CONSTANT:
            result = np.full(self.output.sizes, self.constant(), x.dtype)
            inside = (slice(start, start + size) for start, size in zip(self.start_padding, x.shape, strict=True))
            result[tuple(inside)] = x
            return (result,)
        return (x[np.ix_(*self.sources())],)

    def sources(self) -> list[Array]:
        """The indices, in the input, of the output's elements along each axis, unless they are constant."""
        source = _SOURCE[self.padding_mode]
        return [
            source(np.arange(-start, size + end), size)
            for start, size, end in zip(self.start_padding, self.input.sizes, self.end_padding, strict=True)
        ]

    def constant(self) -> Any:
        """The padding value as a NumPy scalar of the tensor's type."""
        raise NotImplementedError

    def derivative(self, back: Backward) -> Gradients:
        if self.padding_mode is PaddingMode.CONSTANT:
            return [back(ops.Slice, back.g, offsets=self.start_padding, sizes=self.input.sizes)]
        gradient = back.g
        for axis, (sources, size) in enumerate(zip(self.sources(), self.input.sizes, strict=True)):
            if len(sources) != size:
                gradient = back.along(gradient, axis, np.arange(size)[:, None] == sources)
        return [gradient]


class Padding(Pad, dml="PADDING"):
    """The input with `start_padding` elements before it and `end_padding` after it, in every dimension.

    They are `padding_value` (constant), the element at the edge (edge), the elements mirrored at the edge without it
    (reflection) or with it (symmetric, from feature level 3.0), or those at the other end (wrap, from 6.4).
    Padding wider than the tensor repeats this.  An integer tensor truncates the value's fraction and keeps its low
    bits.
    """

    example: ClassVar = (
        "padding_mode: constant, padding_value: 0, start_padding: [0, 0, 1, 1], end_padding: [0, 0, 1, 1]"
    )

    padding_value: Float = 0.0
    start_padding: Paddings = inferred()
    end_padding: Paddings = inferred()

    def constant(self) -> Any:
        return cut(self.padding_value, self.input.dtype)


class Padding1(Pad, dml="PADDING1"):
    """Padding whose `padding_value` has the tensor's data type, so that 64-bit values are kept."""

    meanings: ClassVar = {"padding_value_data_type": "The data type of the padding value; the input's by default."}
    example: ClassVar = Padding.example

    padding_value_data_type: ScalarDataType = inferred()
    padding_value: Annotated[ScalarValue, TypedBy("padding_value_data_type")] = zero()
    start_padding: Paddings = inferred()
    end_padding: Paddings = inferred()

    def constant(self) -> Any:
        return self.padding_value.value
