"""Fills: operators that write values and read none."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np

from dmlgraph.base.errors import Problem
from dmlgraph.base.scalar import Scalar
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.operators.declaration.constraints import determined
from dmlgraph.operators.declaration.fields import Output, ScalarDataType, ScalarValue, TypedBy, inferred
from dmlgraph.operators.declaration.operator import Array, Operator
from dmlgraph.operators.declaration.outputs import Given, Outcome


class Fill(Operator):
    """Base of the fills: the output is as requested, because nothing determines it."""

    meanings: ClassVar = {
        "value": "The number that is written.",
        "value_data_type": "The data type of the value; the output's by default.",
    }

    output_keywords: ClassVar = ("sizes", "dtype", "strides")

    output: Output = inferred()

    def infer(self, given: Given) -> Outcome:
        asked, why = given["output"], "a fill has no input that determines it"
        dtype, sizes = (determined(getattr(asked, each), f"output.{each}", why) for each in ("dtype", "sizes"))
        return {"output": TensorDesc(dtype=dtype, sizes=sizes)}


class FillValueConstant(Fill, dml="FILL_VALUE_CONSTANT"):
    """Every element is `value`, bit for bit: NaN payloads and −0.0 are kept.

    Source: DML_FILL_VALUE_CONSTANT_OPERATOR_DESC.
    """

    example: ClassVar = "output: {dtype: float32, sizes: [1, 1, 2, 4]}, value: 13.0"

    value_data_type: ScalarDataType = inferred()
    value: Annotated[ScalarValue, TypedBy("value_data_type")]

    def evaluate(self) -> tuple[Array, ...]:
        value = np.frombuffer(self.value.union, self.output.dtype.numpy, 1)
        return (np.broadcast_to(value, self.output.sizes),)


class FillValueSequence(Fill, dml="FILL_VALUE_SEQUENCE"):
    """Element i is `value_start + i * value_delta`; i counts the elements row-major, for any strides.

    Nothing is accumulated.  Integers wrap modulo 2^N.  Floats are computed in the output's own type: the index is
    rounded to it, then the product, then the sum; there is no fused multiply-add.  So float16 is exact for the
    first 2,049 elements, from 65,520 on the index is infinite, and infinity times a delta of zero is NaN.

    Source: DML_FILL_VALUE_SEQUENCE_OPERATOR_DESC (the closed form of its current page); the rounding is measured on
    DirectML 1.13, bit for bit, over the most elements it computes at once: 2^18 in float32, 2^19 in float16.
    """

    meanings: ClassVar = {
        "value_start": "The first element.",
        "value_delta": "The distance from each element to the next.",
    }
    example: ClassVar = "output: {dtype: float32, sizes: [1, 1, 1, 3]}, value_start: 3, value_delta: 2"

    value_data_type: ScalarDataType = inferred()
    value_start: Annotated[ScalarValue, TypedBy("value_data_type")]
    value_delta: Annotated[ScalarValue, TypedBy("value_data_type")]

    def evaluate(self) -> tuple[Array, ...]:
        values = self.at(np.arange(self.output.element_count, dtype=np.uint64))
        return (values.reshape(self.output.sizes),)

    def at(self, index: Array) -> Array:
        """The elements of these row-major indices (uint64)."""
        dtype = self.output.dtype.numpy
        with np.errstate(all="ignore"):
            if self.output.dtype.is_float:
                return np.asarray(self.value_start.value + index.astype(dtype) * self.value_delta.value)
            # Bit patterns added modulo 2^64 and truncated to N bits are the sum modulo 2^N, signed or not.
            bits = np.uint64(self.value_start.bits) + index * np.uint64(self.value_delta.bits)
            return bits.astype(f"u{dtype.itemsize}").view(dtype)

    def doubts(self, _ranks: Sequence[int | None]) -> Problem | None:
        """The problem of a sequence that leaves the range of its data type, or stops being exact."""
        return _float_sequence(self) if self.output.dtype.is_float else _integer_sequence(self)


SEARCHED = 4096  # the most elements searched for the first inexact one, after those that are certainly exact


def _integer_sequence(fill: FillValueSequence) -> Problem | None:
    """The problem where start + i * delta leaves the type's range.

    A delta in the upper half of an unsigned type's range may be meant as negative: both readings are tried.
    """
    dtype, last = fill.output.dtype, fill.output.element_count - 1
    low, high = dtype.range
    start, given = int(fill.value_start.value), int(fill.value_delta.value)
    deltas = [given, given - (1 << dtype.bits)] if given > high // 2 and not dtype.is_signed else [given]
    if any(low <= start + last * delta <= high for delta in deltas):
        return None
    delta = min(deltas, key=abs)
    first = ((high - start) // delta if delta > 0 else (start - low) // -delta) + 1
    value = start + first * delta
    wrapped = (value - low) % (1 << dtype.bits) + low
    return Problem(
        f"the sequence leaves the range of {dtype}: element {first} is {wrapped}, not {value}",
        code="sequence-range",
        field="value_delta",
        allowed=f"{low} to {high}",
        hint="a wider integer type holds it",
    )


def _float_sequence(fill: FillValueSequence) -> Problem | None:
    """The problem where a sequence becomes infinite, or a sequence of whole numbers stops being exact."""
    start, delta = fill.value_start, fill.value_delta
    last = fill.output.element_count - 1
    if not (np.isfinite(start.value) and np.isfinite(delta.value)):
        return None
    if not np.isfinite(_element(start, delta, last)):
        first = _first(lambda index: not np.isfinite(_element(start, delta, index)), last)
        return Problem(
            f"the sequence leaves the range of {start.dtype}: element {first} is {_element(start, delta, first)}",
            code="sequence-range",
            field="value_delta",
            allowed=f"at most {np.finfo(start.dtype.numpy).max}",
            hint="float32 reaches farther" if start.dtype is DataType.FLOAT16 else None,
        )
    inexact = _first_inexact(start, delta, last)
    if inexact is None:
        return None
    exact = int(start.value) + inexact * int(delta.value)
    bits = _precision(start.dtype)
    return Problem(
        f"the sequence stops being exact: element {inexact} is {int(_element(start, delta, inexact))}, not {exact}",
        code="sequence-inexact",
        field="value_delta",
        hint=f"{start.dtype} holds every whole number up to 2^{bits}; count in an integer type and cast later",
    )


def _element(start: Scalar, delta: Scalar, index: int) -> Any:
    """One element as DirectML computes it, in the data type: see `FillValueSequence`."""
    with np.errstate(all="ignore"):
        return start.value + start.dtype.numpy.type(index) * delta.value


def _first(is_so: Callable[[int], bool], last: int) -> int:
    """The first index that satisfies a monotonic predicate, which holds at the last index."""
    low, high = 0, last
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_so(middle) else (middle + 1, high)
    return low


def _first_inexact(start: Scalar, delta: Scalar, last: int) -> int | None:
    """The first element that is not exactly start + i * delta; None: all are exact, or the terms have fractions.

    An index, a product and a sum of whole numbers are certainly exact while each, without its factors of two, has no
    more bits than the significand: up to `certain`.  Elements after that are compared.
    """
    if not (float(start.value).is_integer() and float(delta.value).is_integer()) or not delta.value:
        return None
    first, step, limit = int(start.value), int(delta.value), 2 ** _precision(start.dtype)
    farthest = limit * math.gcd(_twos(first), _twos(step)) if first else limit * _twos(step)
    toward = first if step > 0 else -first
    certain = min(limit, limit * _twos(step) // abs(step), (farthest - toward) // abs(step))
    if abs(first) > farthest:
        certain = 0
    for index in range(max(certain, 0) + 1, min(last, max(certain, 0) + SEARCHED) + 1):
        if int(_element(start, delta, index)) != first + index * step:
            return index
    return None


def _precision(dtype: DataType) -> int:
    """The bits of a float type's significand: whole numbers are exact up to 2 to this power."""
    return int(np.finfo(dtype.numpy).nmant) + 1


def _twos(number: int) -> int:
    """The largest power of two that divides a number."""
    return number & -number
