"""Matrix products of quantized tensors: an integer q stands for (q − zero_point) · scale."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

import numpy as np

from dmlgraph.base.errors import Problem
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.operators.common.numerics import convert
from dmlgraph.operators.common.scales import Quantized, clamp_steps, of_quantized_pair, paired, with_rank
from dmlgraph.operators.declaration.constraints import one_or_vector
from dmlgraph.operators.declaration.fields import Input, NumberType, OptionalInput, Output, ScaleInput, inferred
from dmlgraph.operators.declaration.operator import Array, Operator
from dmlgraph.operators.declaration.outputs import Given, Outcome
from dmlgraph.operators.matrix import (
    broadcast_batches,
    broadcast_field,
    check_inner_sizes,
    check_matrices,
    same_batches,
)
from dmlgraph.operators.quantization import from_steps

_LAST, _BUT_LAST = -1, -2


class IntegerProduct(Operator):
    """Base: A {…, M, K} times B {…, K, N}; parameters of A and the output are per row, those of B per column."""

    heavy: ClassVar = True
    no_derivative: ClassVar = "its operands are integers"
    multiplies_integers: ClassVar = True

    a: Annotated[Input, NumberType("b")]
    b: Annotated[Input, NumberType("a")]
    output: Output = inferred()

    def products(self) -> int:
        return self.output.element_count * self.a.sizes[-1]

    @classmethod
    def adapt(cls, inputs: dict[str, Any], attributes: Mapping[str, Any]) -> dict[str, Any]:
        a, b = inputs.get("a"), inputs.get("b")
        if a is None or b is None:
            return inputs  # the fields' own check says which is missing
        a, b = broadcast_batches(a, b)
        others = {
            field: desc and _along(desc, _vector_axis(field), a.rank)
            for field, desc in inputs.items()
            if field not in ("a", "b", "bias")
        }
        return paired(inputs | others | {"a": a, "b": b})

    def infer(self, given: Given) -> Outcome:
        a, b = self.a, self.b
        check_matrices(a, b)
        check_inner_sizes(a.sizes[-1], b.sizes[-2], b)
        return {"output": a.like(sizes=(*a.sizes[:-1], b.sizes[-1]), dtype=self.output_dtype(given))}

    def output_dtype(self, given: Given) -> DataType:
        raise NotImplementedError

    def constraints(self) -> Iterator[Problem]:
        a, b = self.a, self.b
        yield from same_batches(a, b)
        counts = {_BUT_LAST: ("row", a.sizes[-2]), _LAST: ("column", b.sizes[-1])}
        for field in self.input_fields:
            desc = getattr(self, field)
            if field not in ("a", "b", "bias") and desc is not None:
                axis = _vector_axis(field)
                what, count = counts[axis]
                vector = _vector(count, axis, desc.rank)
                yield from one_or_vector(field, desc, vector, f"must be one number, or one for each {what}")


def _vector_axis(field: str) -> int:
    """The dimension along which a scale or zero point may have more than one number."""
    return _LAST if field.startswith("b_") else _BUT_LAST


def _vector(count: int, axis: int, rank: int) -> tuple[int, ...]:
    sizes = [1] * max(rank, -axis)
    sizes[axis] = count
    return tuple(sizes)


def _along(desc: TensorDesc, axis: int, rank: int) -> TensorDesc:
    """A parameter of one dimension read along the axis; one of more with leading ones up to the matrices' rank."""
    if desc.rank == 1:
        stride = desc.effective_strides[0]
        strides = None if desc.strides is None else tuple(stride if size != 1 else 0 for size in _vector(2, axis, rank))
        return desc.like(sizes=_vector(desc.sizes[0], axis, rank), strides=strides, owned=desc.owned)
    return with_rank(desc, rank)


def _sums(a: Array, a_zero: Array | None, b: Array, b_zero: Array | None) -> Array:
    """Σ (a − a_zero_point) · (b − b_zero_point) over the inner dimension, in float64: exact for 8-bit integers."""
    left, right = (
        matrix.astype(np.float64) - (0 if zero is None else zero.astype(np.float64))
        for matrix, zero in ((a, a_zero), (b, b_zero))
    )
    return np.asarray(left @ right)


class MatrixMultiplyInteger(IntegerProduct, dml="MATRIX_MULTIPLY_INTEGER"):
    """The matrix product of quantized tensors: Σ (a − a_zero_point) · (b − b_zero_point), as int32, modulo 2^32.

    Shapes: a {…, M, K}, b {…, K, N}, output {…, M, N}; batches broadcast by zero strides.  A zero point is one
    number, or one for each row of a, {1, …, M, 1}, or column of b, {1, …, 1, N}; a tensor of one dimension is read in
    this way.  One that is left out is 0.
    """

    example: ClassVar = (
        "a: [1, 1, 2, 3], a_zero_point: {dtype: uint8, sizes: [1], data: [128]}, b: {dtype: int8, sizes: [1, 1, 3, 4]}"
    )

    a_zero_point: OptionalInput = None
    b: Annotated[Input, NumberType("a")]
    b_zero_point: OptionalInput = None

    def output_dtype(self, given: Given) -> DataType:
        return DataType.INT32

    def evaluate(self, a: Array, a_zero: Array | None, b: Array, b_zero: Array | None) -> tuple[Array, ...]:
        return (_sums(a, a_zero, b, b_zero).astype(np.int64).astype(np.int32),)


class QuantizedLinearMatrixMultiply(IntegerProduct, dml="QUANTIZED_LINEAR_MATRIX_MULTIPLY"):
    """The matrix product of quantized tensors, quantized.

    It is clamp(round(Σ (a − a_zero_point) · (b − b_zero_point) · a_scale · b_scale / output_scale) +
    output_zero_point).  Halves round to even; the range is that of the output's data type, which is the output zero
    point's, or the requested one, or else that of a.  Shapes: a {…, M, K}, b {…, K, N}, output {…, M, N}; batches
    broadcast by zero strides.  A scale or zero point is one number, or one for each row of a or the output,
    {1, …, M, 1}, or column of b, {1, …, 1, N}; a tensor of one dimension is read in this way.  A zero point that is
    left out is 0.
    """

    output_keywords: ClassVar = ("dtype",)
    example: ClassVar = (
        "a: [1, 1, 2, 3], a_scale: {dtype: float32, sizes: [2], data: [0.5, 0.25]}, "
        "b: {dtype: int8, sizes: [1, 1, 3, 4]}, b_scale: {dtype: float32, sizes: [1], data: [0.125]}, "
        "output_scale: {dtype: float32, sizes: [1], data: [0.5]}"
    )

    a_scale: ScaleInput
    a_zero_point: OptionalInput = None
    b: Annotated[Input, NumberType("a")]
    b_scale: ScaleInput
    b_zero_point: OptionalInput = None
    output_scale: ScaleInput
    output_zero_point: Annotated[OptionalInput, NumberType("a")] = None

    def output_dtype(self, given: Given) -> DataType:
        if self.output_zero_point is not None:
            return self.output_zero_point.dtype
        return given["output"].dtype or self.a.dtype

    @of_quantized_pair
    def evaluate(self, a: Quantized, b: Quantized, scale: Array, zero: Array | None) -> tuple[Array, ...]:
        with np.errstate(all="ignore"):
            sums = _sums(a.steps, a.zero_point, b.steps, b.zero_point).astype(np.float32)
            steps = sums * (b.scale * (a.scale / scale))  # DirectML's order: it decides which steps are exact halves
        return (clamp_steps(steps, np.zeros(1) if zero is None else zero, self.output.dtype),)


class MatrixMultiplyIntegerToFloat(IntegerProduct, dml="MATRIX_MULTIPLY_INTEGER_TO_FLOAT"):
    """The matrix product of quantized tensors, as floats.

    It is Σ (a − a_zero_point) · a_scale · (b − b_zero_point) · b_scale + bias, in the scales' data type.  The
    dequantized a and b are rounded to that type before the product (measured); the sum is rounded once.  Shapes: a
    {…, M, K}, b {…, K, N}, bias and output {…, M, N}; batches, and the bias to the output, broadcast by zero
    strides.  A scale or zero point is one number, or one for each row of a, {1, …, M, 1}, or column of b,
    {1, …, 1, N}; a tensor of one dimension is read in this way.  A zero point that is left out is 0.
    """

    example: ClassVar = (
        "a: {dtype: uint8, sizes: [1, 1, 2, 3]}, a_scale: {dtype: float32, sizes: [2], data: [0.5, 0.25]}, "
        "b: {dtype: uint8, sizes: [1, 1, 3, 4]}, b_scale: {dtype: float32, sizes: [1], data: [0.125]}, "
        "bias: {dtype: float32, sizes: [4], data: [1, 2, 3, 4]}"
    )

    a: Input
    a_scale: ScaleInput
    a_zero_point: OptionalInput = None
    b: Input
    b_scale: ScaleInput
    b_zero_point: OptionalInput = None
    bias: Annotated[OptionalInput, NumberType(DataType.FLOAT32)] = None

    @classmethod
    def adapt(cls, inputs: dict[str, Any], attributes: Mapping[str, Any]) -> dict[str, Any]:
        adapted = super().adapt(inputs, attributes)
        a, b, bias = adapted.get("a"), adapted.get("b"), adapted.get("bias")
        if a is None or b is None or bias is None:
            return adapted
        return adapted | {"bias": broadcast_field("bias", bias, (*a.sizes[:-1], b.sizes[-1]))}

    def output_dtype(self, given: Given) -> DataType:
        return self.a_scale.dtype

    @of_quantized_pair
    def evaluate(self, a: Quantized, b: Quantized, bias: Array | None) -> tuple[Array, ...]:
        with np.errstate(all="ignore"):
            left = from_steps(*a, self.output.dtype).astype(np.float64)
            right = from_steps(*b, self.output.dtype).astype(np.float64)
            result = left @ right
            return (convert(result if bias is None else result + bias, self.output.dtype),)
