"""Operators that move elements and compute nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, ClassVar

import numpy as np

from dmlgraph import operators as ops
from dmlgraph.base.errors import OperatorError, Problem
from dmlgraph.base.tensor import TensorDesc
from dmlgraph.operators.common.axes import with_size
from dmlgraph.operators.declaration.constraints import at_least, require, rule, sizes_are
from dmlgraph.operators.declaration.derivative import Backward, Gradients
from dmlgraph.operators.declaration.fields import (
    Axis,
    Count,
    CountInput,
    Input,
    Inputs,
    Output,
    Outputs,
    UIntPerDimension,
    inferred,
)
from dmlgraph.operators.declaration.operator import Array, Operator
from dmlgraph.operators.declaration.outputs import Given, Outcome, OutputSpec


class Join(Operator, dml="JOIN"):
    """The inputs one after another along `axis`; their other sizes are equal."""

    meanings: ClassVar = {"inputs": "The tensors that the operator reads, in order."}
    repeatable: ClassVar = ("inputs",)
    moves: ClassVar = ("inputs",)
    order_preserving: ClassVar = "inputs"
    example: ClassVar = "inputs: [[1, 1, 2, 3], [1, 1, 2, 1]], axis: 3"

    inputs: Inputs
    output: Output = inferred()
    axis: Axis

    def why_copy(self) -> str | None:
        return "joins one tensor" if len(self.inputs) == 1 else None

    def infer(self, given: Given) -> Outcome:
        parts = self.inputs
        if not parts:
            raise OperatorError("must have at least one tensor", code="count", field="inputs")
        first = parts[0]
        length = sum(part.sizes[self.axis] for part in parts if part.rank == first.rank)
        return {"output": first.like(sizes=with_size(first.sizes, self.axis, length))}

    def constraints(self) -> Iterator[Problem]:
        return _differ_along(self.axis, "inputs", self.inputs, self.output)

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        return (np.concatenate(inputs, axis=self.axis),)

    def derivative(self, back: Backward) -> Gradients:
        sizes = [part.sizes[self.axis] for part in self.inputs]
        parts: Gradients = back.several(ops.Split, back.g, axis=self.axis, outputs=sizes)
        return parts


class Split(Operator, dml="SPLIT"):
    """The input split along `axis` into parts; `outputs` lists their sizes along it, which add up to the input's.

    A single number instead of the list is the number of equal parts.
    """

    meanings: ClassVar = {"outputs": "The parts: their sizes along the axis, or the number of equal parts."}
    moves: ClassVar = ("input",)
    order_preserving: ClassVar = "input"
    example: ClassVar = "input: [1, 1, 2, 6], axis: 3, outputs: [2, 4]"

    input: Input
    outputs: Outputs = inferred()
    axis: Axis

    def why_copy(self) -> str | None:
        return "has one part" if len(self.outputs) == 1 else None

    def infer(self, given: Given) -> Outcome:
        asked = given["outputs"]
        if isinstance(asked, int):
            asked = self._equal_parts(asked)
        if not isinstance(asked, list) or not asked:
            raise OperatorError(
                "must list the parts: nothing determines them",
                code="undetermined",
                field="outputs",
                allowed="the size of each part along the axis, such as [2, 4], or the number of equal parts",
            )
        return {"outputs": tuple(self._part(index, spec) for index, spec in enumerate(asked))}

    def _equal_parts(self, count: int) -> list[int]:
        size = self.input.sizes[self.axis]
        message = f"does not divide the {size} elements along axis {self.axis} into equal parts"
        allowed = "a number that does, or a list of the size of each part"
        divides_it = count >= 1 and size % count == 0
        require(rule(divides_it, "outputs", message, "sizes", got=count, allowed=allowed))
        return [size // count] * count

    def _part(self, index: int, spec: int | OutputSpec) -> TensorDesc:
        field = f"outputs.{index}"
        if isinstance(spec, OutputSpec):
            if spec.sizes is None or len(spec.sizes) != self.input.rank:
                message = "must be given, one for each dimension of the input"
                raise OperatorError(message, code="missing", field=f"{field}.sizes", got=spec.sizes)
            spec = spec.sizes[self.axis]
        require(at_least(field, spec))
        return self.input.like(sizes=with_size(self.input.sizes, self.axis, spec))

    def constraints(self) -> Iterator[Problem]:
        axis, parts = self.axis, self.outputs
        yield from _differ_along(axis, "outputs", parts, self.input)
        total, whole = sum(part.sizes[axis] for part in parts), self.input.sizes[axis]
        message = f"the sizes along axis {axis} must add up to the input's"
        yield from rule(total == whole, "outputs", message, "sizes", got=total, allowed=str(whole))

    def evaluate(self, x: Array) -> tuple[Array, ...]:
        parts = self.outputs
        cuts = np.cumsum([part.sizes[self.axis] for part in parts])[:-1]
        return tuple(np.split(x, cuts, axis=self.axis))

    def derivative(self, back: Backward) -> Gradients:
        return [back(ops.Join, [back.gradient(port) for port in range(len(self.outputs))], axis=self.axis)]


class Tile(Operator, dml="TILE"):
    """The input repeated `repeats` times in every dimension."""

    meanings: ClassVar = {"repeats": "How often the input is repeated in each dimension."}
    moves: ClassVar = ("input",)
    order_preserving: ClassVar = "input"
    example: ClassVar = "repeats: [1, 1, 2, 2]"

    input: Input
    output: Output = inferred()
    repeats: Annotated[UIntPerDimension, Count("RepeatsCount")]

    def why_copy(self) -> str | None:
        return "repeats once" if set(self.repeats) == {1} else None

    def infer(self, given: Given) -> Outcome:
        require(at_least("repeats", self.repeats))
        sizes = [size * repeats for size, repeats in zip(self.input.sizes, self.repeats, strict=True)]
        return {"output": self.input.like(sizes=sizes)}

    def evaluate(self, x: Array) -> tuple[Array, ...]:
        return (np.tile(x, self.repeats),)

    def derivative(self, back: Backward) -> Gradients:
        gradient, sizes = back.g, self.input.sizes
        for axis, repeats in enumerate(self.repeats):
            if repeats > 1:
                before, after = gradient.sizes[:axis], gradient.sizes[axis + 1 :]
                copies = gradient.reshape(math.prod(before), repeats, sizes[axis] * math.prod(after))
                gradient = back.total(copies, [1]).reshape(*before, sizes[axis], *after)
        return [gradient]


class ReverseSubsequences(Operator, dml="REVERSE_SUBSEQUENCES"):
    """The first `sequence_lengths` elements along `axis` in reverse order; the others are unchanged.

    The lengths have the input's sizes, except 1 along the axis.  output[i] = input[length − 1 − i] for i below the
    length.  A length beyond the axis's size reads the last element instead of elements that do not exist (measured; in
    the documentation such a length counts as the size).
    """

    moves: ClassVar = ("input",)
    order_preserving: ClassVar = "input"
    example: ClassVar = "input: [1, 1, 2, 3], sequence_lengths: [1, 1, 2, 1], axis: 3"

    input: Input
    sequence_lengths: CountInput
    output: Output = inferred()
    axis: Axis

    def constraints(self) -> Iterator[Problem]:
        if self.sequence_lengths.rank == self.input.rank:
            message = f"must be those of the input, with 1 along axis {self.axis}"
            expected = with_size(self.input.sizes, self.axis, 1)
            yield from sizes_are("sequence_lengths", self.sequence_lengths, expected, message)

    def evaluate(self, x: Array, lengths: Array) -> tuple[Array, ...]:
        size = x.shape[self.axis]
        length = np.minimum(lengths, 2 * size).astype(np.intp)  # from this length on all elements read the last one
        place = np.arange(size).reshape([size if axis == self.axis else 1 for axis in range(x.ndim)])
        source = np.where(place < length, np.minimum(length - 1 - place, size - 1), place)
        return (np.take_along_axis(x, source, self.axis),)

    def derivative(self, back: Backward) -> Gradients:
        return [back(ops.ReverseSubsequences, back.g, back.given[1], axis=self.axis), None]


def _differ_along(axis: int, field: str, parts: tuple[TensorDesc, ...], whole: TensorDesc) -> Iterator[Problem]:
    """The parts' sizes are the whole's, except along the axis."""
    for index, part in enumerate(parts):
        if part.rank == whole.rank:
            expected, message = with_size(whole.sizes, axis, part.sizes[axis]), f"may differ only along axis {axis}"
            yield from sizes_are(f"{field}.{index}", part, expected, message)
