"""Quantization: an integer q stands for the number (q − zero_point) · scale."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from dmlgraph.base.errors import Problem
from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.operators.common.element_wise import ElementWise
from dmlgraph.operators.common.numerics import convert
from dmlgraph.operators.common.scales import Quantized, clamp_steps, of_quantized_pair, with_rank
from dmlgraph.operators.declaration.constraints import (
    count_is,
    determined,
    dtype_is,
    is_given,
    one_number,
    rule,
    sizes_divide,
)
from dmlgraph.operators.declaration.fields import (
    Count,
    Input,
    Inputs,
    NumberType,
    OptionalInput,
    Output,
    ScaleInput,
    inferred,
)
from dmlgraph.operators.declaration.operator import Array, Operator, broadcast_inputs
from dmlgraph.operators.declaration.outputs import Given, Outcome
from dmlgraph.operators.directml_enums import QuantizationType


def quantized_dtype(zero_point: TensorDesc | None, given: Given) -> DataType:
    """The data type of a quantized output: its zero point's, else the requested one.

    Raises:
        OperatorError: neither is given.
    """
    dtype: DataType | None = given["output"].dtype if zero_point is None else zero_point.dtype
    return determined(dtype, "output.dtype", "without a zero point nothing determines it")


def to_steps(x: Array, scale: Array, zero_point: Array | None, dtype: DataType) -> Array:
    """clamp(round(x / scale) + zero_point), halves to even, of arrays that broadcast; the quotient is float32."""
    with np.errstate(all="ignore"):
        quotient = x.astype(np.float32) / scale.astype(np.float32)
    return clamp_steps(quotient, np.zeros(1) if zero_point is None else zero_point, dtype)


def from_steps(x: Array, scale: Array, zero_point: Array | None, dtype: DataType) -> Array:
    """(x − zero_point) · scale of arrays that broadcast, in float32: integers beyond 2^24 are rounded first."""
    steps = x.astype(np.float32)
    if zero_point is not None:
        steps = steps - zero_point.astype(np.float32)
    with np.errstate(all="ignore"):
        return convert(steps * scale.astype(np.float32), dtype)


_STEPS = "quantized numbers change in steps"


class Linear(ElementWise):
    """Base of the element-wise pair: scale and zero point broadcast to the input, by zero strides."""

    no_derivative: ClassVar = _STEPS
    meanings: ClassVar = {"zero_point": "The integer that stands for 0."}
    in_place: ClassVar = False

    input: Input
    scale: ScaleInput
    zero_point: OptionalInput = None
    output: Output = inferred()

    def level_constraints(self, level: FeatureLevel) -> Iterator[Problem]:
        if level < FeatureLevel.V6_2:
            message = f"must be given at feature level {level}; it may be left out from 6.2"
            yield from is_given("zero_point", self.zero_point, message, "level")


class QuantizeLinear(Linear, dml="ELEMENT_WISE_QUANTIZE_LINEAR"):
    """The integers that stand for numbers: clamp(round(input / scale) + zero_point), halves to even.

    They are clamped to the range of the output's data type.  Scale and zero point (0 if it is left out) broadcast as in
    NumPy: one for all, or {C, 1, 1} for one per channel.  The output has the zero point's data type, or the requested
    one.  A scale of zero is undefined.
    """

    output_keywords: ClassVar = ("dtype",)
    example: ClassVar = (
        "input: [1, 1, 2, 3], scale: {dtype: float32, sizes: [1], data: [0.5]}, "
        "zero_point: {dtype: uint8, sizes: [1], data: [128]}"
    )

    input: Annotated[Input, NumberType("scale")]
    scale: Annotated[Input, NumberType("input", DataType.FLOAT32)]
    zero_point: OptionalInput = None

    def infer(self, given: Given) -> Outcome:
        return {"output": self.input.like(dtype=quantized_dtype(self.zero_point, given))}

    def constraints(self) -> Iterator[Problem]:
        wanted = self.input.dtype if self.input.dtype.is_float else DataType.FLOAT32
        return dtype_is("scale", self.scale, wanted, "must be the input's data type, float32 for an integer input")

    def evaluate(self, x: Array, scale: Array, zero_point: Array | None) -> tuple[Array, ...]:
        return (to_steps(x, scale, zero_point, self.output.dtype),)


class DequantizeLinear(Linear, dml="ELEMENT_WISE_DEQUANTIZE_LINEAR"):
    """The numbers that integers stand for: (input − zero_point) · scale.

    Scale and zero point (0 if it is left out) broadcast as in NumPy: one for all, or {C, 1, 1} for one per channel.
    The output has the scale's data type.
    """

    example: ClassVar = "input: {dtype: uint8, sizes: [1, 1, 2, 3]}, scale: {dtype: float32, sizes: [1], data: [0.5]}"

    def infer(self, given: Given) -> Outcome:
        return {"output": self.scale.like()}

    def evaluate(self, x: Array, scale: Array, zero_point: Array | None) -> tuple[Array, ...]:
        return (from_steps(x, scale, zero_point, self.output.dtype),)


class QuantizedLinearAdd(Operator, dml="ELEMENT_WISE_QUANTIZED_LINEAR_ADD"):
    """The sum of quantized tensors, quantized.

    It is clamp(round(((a − a_zero_point) · a_scale + (b − b_zero_point) · b_scale) / output_scale) +
    output_zero_point).  Halves round to even; the range is that of the output's data type, which is the output zero
    point's, or the requested one, or else that of a.  a and b broadcast as in NumPy.  Scales and zero points are
    tensors of one element; a zero point that is left out is 0.  A scale of zero is undefined.
    """

    no_derivative: ClassVar = _STEPS
    output_keywords: ClassVar = ("dtype",)
    example: ClassVar = (
        "a: [1, 1, 2, 3], a_scale: {dtype: float32, sizes: [1], data: [0.5]}, b: [1, 1, 2, 3], "
        "b_scale: {dtype: float32, sizes: [1], data: [0.25]}, "
        "output_scale: {dtype: float32, sizes: [1], data: [1.0]}"
    )

    a: Annotated[Input, NumberType("b")]
    a_scale: ScaleInput
    a_zero_point: OptionalInput = None
    b: Annotated[Input, NumberType("a")]
    b_scale: ScaleInput
    b_zero_point: OptionalInput = None
    output_scale: ScaleInput
    output_zero_point: Annotated[OptionalInput, NumberType("a")] = None
    output: Output = inferred()

    @classmethod
    def adapt(cls, inputs: dict[str, Any], attributes: Mapping[str, Any]) -> dict[str, Any]:
        terms = broadcast_inputs({field: inputs.get(field) for field in ("a", "b")})
        rank = max((desc.rank for desc in terms.values() if desc is not None), default=1)
        return {field: desc and with_rank(desc, rank) for field, desc in inputs.items()} | terms

    def infer(self, given: Given) -> Outcome:
        dtype = given["output"].dtype or self.a.dtype
        if self.output_zero_point is not None:
            dtype = self.output_zero_point.dtype
        return {"output": self.a.like(dtype=dtype)}

    def constraints(self) -> Iterator[Problem]:
        a, b = str(self.a), str(self.b)
        yield from rule(self.a.sizes == self.b.sizes, "b", "must have the same sizes as 'a'", "sizes", got=b, allowed=a)
        for field in self.input_fields:
            if field not in ("a", "b"):
                yield from one_number(field, getattr(self, field))

    @of_quantized_pair
    def evaluate(self, a: Quantized, b: Quantized, scale: Array, zero: Array | None) -> tuple[Array, ...]:
        total = from_steps(*a, DataType.FLOAT32) + from_steps(*b, DataType.FLOAT32)
        return (to_steps(total, scale, zero, self.output.dtype),)


class DynamicQuantizeLinear(Operator, dml="DYNAMIC_QUANTIZE_LINEAR"):
    """Quantizes to the input's own range, and gives the scale and zero point that it used.

    low and high are the bounds of the output's data type: output_scale = (max − min) / (high − low);
    output_zero_point = clamp(round(low − min / output_scale)); output = clamp(round(input / output_scale) +
    output_zero_point), halves to even.  The output's data type, int8 or uint8, must be given.
    """

    no_derivative: ClassVar = _STEPS
    output_keywords: ClassVar = ("dtype",)
    example: ClassVar = "input: [1, 1, 2, 3], output: {dtype: uint8}"

    input: Input
    output: Output = inferred()
    output_scale: Output = inferred()
    output_zero_point: Output = inferred()

    def infer(self, given: Given) -> Outcome:
        asked = given["output"].dtype or given["output_zero_point"].dtype
        dtype = determined(asked, "output.dtype", "nothing determines it", allowed="int8 or uint8")
        single = (1,) * self.input.rank
        return {
            "output": self.input.like(dtype=dtype),
            "output_scale": self.input.like(dtype=DataType.FLOAT32, sizes=single),
            "output_zero_point": self.input.like(dtype=dtype, sizes=single),
        }

    def evaluate(self, x: Array) -> tuple[Array, ...]:
        dtype = self.output.dtype
        low, high = dtype.range
        x = x.astype(np.float32)
        with np.errstate(all="ignore"):
            least = np.minimum(x.min(keepdims=True), np.float32(0))
            greatest = np.maximum(x.max(keepdims=True), np.float32(0))
            scale = (greatest - least) * np.float32(1 / (high - low))
            zero_point = to_steps(least, -scale, np.array(low), dtype)
        return to_steps(x, scale, zero_point, dtype), scale, zero_point


class ByBlocks(Operator):
    """Base of QUANTIZE and DEQUANTIZE: one scale and zero point for each block of the data."""

    no_derivative: ClassVar = _STEPS
    meanings: ClassVar = {
        "quantization_type": "Which tensors `quantizations` has: none, a scale, or a scale and a zero point.",
        "quantizations": "The scale, and the zero point if there is one.",
    }

    if TYPE_CHECKING:  # fields of the subclasses, each in the order of its struct
        input: TensorDesc
        quantizations: tuple[TensorDesc, ...]
        quantization_type: QuantizationType

    @classmethod
    def adapt(cls, inputs: dict[str, Any], attributes: Mapping[str, Any]) -> dict[str, Any]:
        tensor, parameters = inputs.get("input"), inputs.get("quantizations")
        if tensor is None or parameters is None:
            return inputs  # the fields' own check says which is missing
        return inputs | {"quantizations": tuple(with_rank(desc, tensor.rank) for desc in parameters)}

    @property
    def scale(self) -> TensorDesc | None:
        return self._parameter(0)

    @property
    def zero_point(self) -> TensorDesc | None:
        return self._parameter(1)

    def _parameter(self, index: int) -> TensorDesc | None:
        parameters: tuple[TensorDesc, ...] = self.quantizations
        return parameters[index] if index < len(parameters) else None

    def constraints(self) -> Iterator[Problem]:
        kind, tensor = self.quantization_type, self.input
        count = _PARAMETERS[kind]
        message = f"must be those of quantization_type {kind}: {count}"
        yield from count_is("quantizations", self.quantizations, count, message)
        message = "must divide the input's size into blocks"
        for index, desc in enumerate(self.quantizations):
            if desc.rank == tensor.rank:
                yield from sizes_divide(f"quantizations.{index}", desc, tensor, message)


_PARAMETERS = {QuantizationType.NONE: 0, QuantizationType.SCALE: 1, QuantizationType.SCALE_ZERO_POINT: 2}


def _spread(parameters: tuple[Array, ...], sizes: tuple[int, ...]) -> list[Array]:
    """Each parameter repeated over its blocks, so that it has the data's sizes."""
    spread = []
    for parameter in parameters:
        places = (np.arange(size) // (size // blocks) for size, blocks in zip(sizes, parameter.shape, strict=True))
        spread.append(parameter[np.ix_(*places)])
    return spread


class Quantize(ByBlocks, dml="QUANTIZE"):
    """The integers that stand for numbers: clamp(round(input / scale) + zero_point), halves to even.

    They are clamped to the range of the output's data type.  `quantizations` holds the scale, of the input's data
    type, and for `scale_zero_point` the zero point, of the output's; for `none` it is empty and the scale is 1.
    Along each dimension their sizes divide the input's into blocks that share a number; missing leading dimensions
    have size 1.  The output's data type is the zero point's, or must be given.  The documentation does not define the
    meaning: here it is ELEMENT_WISE_QUANTIZE_LINEAR's, with blocks as ONNX Runtime uses them.
    """

    same_on_bytes: ClassVar = True
    output_keywords: ClassVar = ("dtype",)
    example: ClassVar = (
        "input: [2, 4], quantization_type: scale_zero_point, "
        "quantizations: [{dtype: float32, sizes: [2, 2], data: [0.5, 1, 2, 4]}, "
        "{dtype: uint4, sizes: [2, 2], data: [8, 8, 7, 0]}]"
    )

    input: Input
    quantization_type: QuantizationType
    quantizations: Annotated[Inputs, Count("QuantizationTensorCount"), NumberType(("input",), ("output",))]
    output: Output = inferred()

    def infer(self, given: Given) -> Outcome:
        return {"output": self.input.like(dtype=quantized_dtype(self.zero_point, given))}

    def constraints(self) -> Iterator[Problem]:
        yield from super().constraints()
        yield from dtype_is("quantizations.0", self.scale, self.input.dtype, "must be the input's data type")

    def evaluate(self, x: Array, *parameters: Array) -> tuple[Array, ...]:
        scale, zero_point, *_ = [*_spread(parameters, x.shape), None, None]
        return (to_steps(x, np.ones(1) if scale is None else scale, zero_point, self.output.dtype),)


class Dequantize(ByBlocks, dml="DEQUANTIZE"):
    """The numbers that integers stand for: (input − zero_point) · scale.

    `quantizations` holds the scale, of the output's data type, and for `scale_zero_point` the zero point, of the
    input's; for `none` it is empty, the scale is 1 and the output's data type must be given.  Along each dimension
    their sizes divide the input's into blocks that share a number; missing leading dimensions have size 1.  The
    documentation does not define the meaning: here it is ELEMENT_WISE_DEQUANTIZE_LINEAR's, with blocks as ONNX Runtime
    uses them.
    """

    same_on_bytes: ClassVar = True
    output_keywords: ClassVar = ("dtype",)
    example: ClassVar = (
        "input: {dtype: uint4, sizes: [2, 4]}, quantization_type: scale_zero_point, "
        "quantizations: [{dtype: float32, sizes: [2, 2], data: [0.5, 1, 2, 4]}, "
        "{dtype: uint4, sizes: [2, 2], data: [8, 8, 7, 0]}]"
    )

    input: Input
    quantization_type: QuantizationType
    quantizations: Annotated[
        Inputs, Count("QuantizationTensorCount"), NumberType(("output", DataType.FLOAT32), ("input",))
    ]
    output: Output = inferred()

    def infer(self, given: Given) -> Outcome:
        dtype = given["output"].dtype if self.scale is None else self.scale.dtype
        dtype = determined(dtype, "output.dtype", "without a scale nothing determines it")
        return {"output": self.input.like(dtype=dtype)}

    def constraints(self) -> Iterator[Problem]:
        yield from super().constraints()
        yield from dtype_is("quantizations.1", self.zero_point, self.input.dtype, "must be the input's data type")

    def evaluate(self, x: Array, *parameters: Array) -> tuple[Array, ...]:
        scale, zero_point, *_ = [*_spread(parameters, x.shape), None, None]
        return (from_steps(x, np.ones(1) if scale is None else scale, zero_point, self.output.dtype),)
