"""Diagonal matrices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar

import numpy as np

from dmlgraph import operators as ops
from dmlgraph.base.errors import Problem
from dmlgraph.operators.common.numerics import cut
from dmlgraph.operators.declaration.constraints import rank_at_least
from dmlgraph.operators.declaration.derivative import Backward, Gradients
from dmlgraph.operators.declaration.fields import (
    Float,
    Int,
    NumberType,
    OptionalInput,
    ScalarDataType,
    ScalarValue,
    TypedBy,
    inferred,
)
from dmlgraph.operators.declaration.operator import Array
from dmlgraph.operators.declaration.outputs import Given, Outcome
from dmlgraph.operators.fill import Fill


class DiagonalFill(Fill):
    """Base: the last two dimensions are the matrix, the ones before them batches."""

    def constraints(self) -> Iterator[Problem]:
        return rank_at_least("output", self.output, 2, "a matrix has at least 2 dimensions")

    def _diagonal(self) -> Array:
        """The number of every element's diagonal: 0 for the main one, positive above it."""
        *_, rows, columns = self.output.sizes
        return np.asarray(np.arange(columns) - np.arange(rows)[:, None])


class DiagonalMatrix(DiagonalFill, dml="DIAGONAL_MATRIX"):
    """`value` on the diagonal that is `offset` above the main one (below it if negative), else zero.

    An integer matrix truncates the value's fraction and keeps its low bits.
    """

    meanings: ClassVar = {"offset": "The diagonal, counted upwards from the main one, which is 0."}
    example: ClassVar = "output: {dtype: float32, sizes: [1, 1, 3, 3]}, offset: 0, value: 1"

    offset: Int
    value: Float

    def evaluate(self) -> tuple[Array, ...]:
        value = cut(self.value, self.output.dtype)
        matrix = np.where(self._diagonal() == self.offset, value, value.dtype.type(0))
        return (np.broadcast_to(matrix, self.output.sizes),)


class DiagonalMatrix1(DiagonalFill, dml="DIAGONAL_MATRIX1"):
    """`value` on the diagonals from `diagonal_fill_begin` up to, excluding, `diagonal_fill_end`, else the input.

    Diagonals are counted from the main one, 0, upwards.  If the end is below the begin, `value` is everywhere except
    on the diagonals from the end up to the begin.  Without an input the rest is zero, and the output's data type
    and sizes must be given.
    """

    meanings: ClassVar = {
        "diagonal_fill_begin": "The first diagonal, counted upwards from the main one, which is 0.",
        "diagonal_fill_end": "The diagonal after the last one.",
    }
    example: ClassVar = "input: [1, 1, 3, 3], value: 7, diagonal_fill_begin: 0, diagonal_fill_end: 1"

    input: Annotated[OptionalInput, NumberType("output")] = None
    value_data_type: ScalarDataType = inferred()
    value: Annotated[ScalarValue, TypedBy("value_data_type")]
    diagonal_fill_begin: Int
    diagonal_fill_end: Int

    def infer(self, given: Given) -> Outcome:
        return super().infer(given) if self.input is None else {"output": self.input.like()}

    def evaluate(self, x: Array | None) -> tuple[Array, ...]:
        begin, end, diagonal = self.diagonal_fill_begin, self.diagonal_fill_end, self._diagonal()
        filled = (begin <= diagonal) & (diagonal < end) if begin <= end else (diagonal < end) | (begin <= diagonal)
        rest = np.zeros(self.output.sizes, self.output.dtype.numpy) if x is None else x
        return (np.where(filled, self.value.value, rest),)

    def derivative(self, back: Backward) -> Gradients:
        return [back(ops.DiagonalMatrix1, back.g, **{**self.attributes, "value": 0})]
