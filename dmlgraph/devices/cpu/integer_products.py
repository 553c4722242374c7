"""Products of quantized tensors as native steps: the sums are int32, and what follows them is instructions.

The inputs of a step are its operands, the tensors that the instructions read, and last the operands' zero points.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dmlgraph.base.tensor import DataType, TensorDesc, broadcast_sizes
from dmlgraph.devices.cpu.element_wise import Code, Instruction, Value
from dmlgraph.devices.cpu.parts import Part, Parts, Tensor, operands
from dmlgraph.operators.convolution import ConvolutionInteger, QuantizedLinearConvolution
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.matrix_integer import (
    MatrixMultiplyInteger,
    MatrixMultiplyIntegerToFloat,
    QuantizedLinearMatrixMultiply,
)

Payload = tuple[str, Any]
Factor = Callable[[Code, Value, Value, Value], None]  # adds the factor of the sums, from both scales and the output's

_SUMS = Value(0, DataType.INT32)
_MOST_TERMS = 2**31 // 255**2  # a sum of so many products of centred 8-bit integers is within int32
_NO_TRANSPOSES = {"transposes_a": False, "transposes_b": False}


def _step(
    name: str, operator: Any, fields: tuple[str, str], parameters: Mapping[str, Any], code: Code | None = None,
    read: Sequence[Tensor] = (), before: Sequence[Part] = (),
) -> Payload | None:  # fmt: skip
    """The parts `before`, then the step whose operands are these fields; their zero points are fields, too.

    Operand k + 2 of the code is the tensor read[k].
    """
    instructions = () if code is None else code.finish()
    if instructions is None:
        return None
    given = [_tensor(operator, field) for field in fields]
    given += [each._replace(desc=each.desc.broadcast_to(operator.output.sizes)) for each in read]
    sources = [each.source for each in given]
    descs: list[TensorDesc | None] = [each.desc for each in given]
    for field in fields:
        sources.append(operator.input_fields.index(f"{field}_zero_point"))
        descs.append(getattr(operator, f"{field}_zero_point"))
    payload = (name, parameters, instructions)
    return "parts", (*before, Part("native", tuple(sources), tuple(descs), operator.output, payload))


def _tensor(operator: Any, field: str) -> Tensor:
    return Tensor(operator.input_fields.index(field), getattr(operator, field))


def _requantized(
    name: str, operator: Any, fields: tuple[str, str], parameters: Mapping[str, Any], factor: Factor,
    bias: Tensor | None = None,
) -> Payload | None:  # fmt: skip
    """The sums, with a bias, times the factor: clamp(round(…) + output zero point).

    The factor is a tensor of its own, computed from the scales: one number, or one for each row, column or channel.
    """
    parts, code = Parts(), Code()
    scales = [_tensor(operator, field) for field in (*(f"{each}_scale" for each in fields), "output_scale")]
    factor(code, *operands(*scales))
    sizes = functools.reduce(broadcast_sizes, (each.desc.sizes for each in scales))
    read = [parts.compute(code, *scales, output=TensorDesc(dtype=DataType.FLOAT32, sizes=sizes))]
    dtype = operator.output.dtype
    if operator.output_zero_point is None:
        read.append(parts.zero(dtype))
    else:
        read.append(_tensor(operator, "output_zero_point"))
    code, sums = Code(), _SUMS
    if bias is not None:
        read.append(bias)
        sums = code.append(Instruction("ADD_TO_FLOAT", (_SUMS.place, 4), DataType.INT32, DataType.FLOAT32))
    code.append(Instruction("REQUANTIZE", (sums.place, 2, 3), sums.dtype, dtype))
    return _step(name, operator, fields, parameters, code, read, parts.finish()[1])


def _multiply(operator: MatrixMultiplyInteger) -> Payload | None:
    return _step("gemm", operator, ("a", "b"), _NO_TRANSPOSES)


def _quantized_multiply(operator: QuantizedLinearMatrixMultiply) -> Payload | None:
    def factor(code: Code, a_scale: Value, b_scale: Value, scale: Value) -> None:
        code.add("MULTIPLY", b_scale, code.add("DIVIDE", a_scale, scale))  # the order decides on exact halves

    if operator.a.sizes[-1] > _MOST_TERMS:
        return None
    return _requantized("gemm", operator, ("a", "b"), _NO_TRANSPOSES, factor)


def _convolve(operator: ConvolutionInteger) -> Payload | None:
    return _step("convolution", operator, ("input", "filter"), _windows(operator))


def _quantized_convolve(operator: QuantizedLinearConvolution) -> Payload | None:
    def factor(code: Code, x_scale: Value, filter_scale: Value, scale: Value) -> None:
        code.add("DIVIDE", code.add("MULTIPLY", x_scale, filter_scale), scale)

    if operator.filter.sizes[1] * operator.window.tap_count > _MOST_TERMS:
        return None
    bias = None if operator.bias is None else _tensor(operator, "bias")
    return _requantized("convolution", operator, ("input", "filter"), _windows(operator), factor, bias)


def _windows(operator: Any) -> Mapping[str, Any]:
    window = operator.window
    return {
        "groups": operator.group_count,
        "strides": window.strides,
        "dilations": window.dilations,
        "padding": window.start,
        "mirrored": False,
        "backward": False,
    }


def _to_float(operator: MatrixMultiplyIntegerToFloat) -> Payload | None:
    """Both operands as floats, rounded to the output's type, then their product."""
    parts, dtype = Parts(), operator.output.dtype
    matrices = [_dequantized(parts, operator, field, dtype) for field in ("a", "b")]
    code, sums, bias = Code(), Value(0, DataType.FLOAT32), operator.bias
    if bias is not None:
        sums = code.add("ADD", sums, code.convert(Value(2, bias.dtype), DataType.FLOAT32))
    code.convert(sums, dtype)
    instructions = code.finish()
    if instructions is None:
        return None
    sources = (*(each.source for each in matrices), *([] if bias is None else [operator.input_fields.index("bias")]))
    descs = (*(each.desc for each in matrices), *([] if bias is None else [bias]))
    last = Part("native", sources, descs, operator.output, ("gemm", _NO_TRANSPOSES, instructions))
    return "parts", (*parts.finish()[1], last)


def _dequantized(parts: Parts, operator: Operator, field: str, dtype: DataType) -> Tensor:
    x = getattr(operator, field)
    names = [field, f"{field}_scale", f"{field}_zero_point"]
    given = [
        Tensor(operator.input_fields.index(name), desc)
        for name in names
        if (desc := getattr(operator, name)) is not None
    ]
    code = Code()
    scale = code.convert(Value(1, given[1].desc.dtype), DataType.FLOAT32)
    opcode, zero = ("DEQUANTIZE", ()) if len(given) == 2 else ("DEQUANTIZE_FROM", (2,))
    number = code.append(Instruction(opcode, (0, scale.place, *zero), x.dtype, DataType.FLOAT32))
    code.convert(number, dtype)
    return parts.compute(code, *given, output=TensorDesc(dtype=dtype, sizes=x.sizes))


INTEGER_PRODUCTS: Mapping[type[Operator], Callable[[Any], Payload | None]] = {
    MatrixMultiplyInteger: _multiply,
    QuantizedLinearMatrixMultiply: _quantized_multiply,
    ConvolutionInteger: _convolve,
    QuantizedLinearConvolution: _quantized_convolve,
    MatrixMultiplyIntegerToFloat: _to_float,
}
