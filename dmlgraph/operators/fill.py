"""Fills: operators that write values and read none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np

from dmlgraph.base.tensor import TensorDesc
from dmlgraph.operators.declaration.constraints import determined
from dmlgraph.operators.declaration.fields import Output, ScalarDataType, ScalarValue, TypedBy, inferred
from dmlgraph.operators.declaration.operator import Array, Operator
from dmlgraph.operators.declaration.outputs import Given, Outcome


class Fill(Operator):
    """Base of the fills: the output is as requested, because nothing determines it."""

    if TYPE_CHECKING:  # fields of the subclasses, each in the order of its struct
        output: TensorDesc

    output_keywords: ClassVar = ("sizes", "dtype", "strides")

    def infer(self, given: Given) -> Outcome:
        asked, why = given["output"], "a fill has no input that determines it"
        dtype, sizes = (determined(getattr(asked, each), f"output.{each}", why) for each in ("dtype", "sizes"))
        return {"output": TensorDesc(dtype=dtype, sizes=sizes)}


class FillValueConstant(Fill, dml="FILL_VALUE_CONSTANT"):
    """Every element is `value`, bit for bit: NaN payloads and −0.0 are kept.

    Source: DML_FILL_VALUE_CONSTANT_OPERATOR_DESC.
    """

    example: ClassVar = """
nodes:
  y: {op: fill_value_constant, output: {dtype: float32, sizes: [1, 1, 2, 4]}, value: 13.0}
outputs: [y]
"""

    output: Output = inferred()
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

    example: ClassVar = """
nodes:
  y: {op: fill_value_sequence, output: {dtype: float32, sizes: [1, 1, 1, 3]}, value_start: 3, value_delta: 2}
outputs: [y]
"""

    output: Output = inferred()
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
