"""Products of quantized tensors as native steps: the sums are int32, and what follows them is instructions.

The inputs of a step are its operands, the tensors that the instructions read, and last the operands' zero points.
"""

from __future__ import annotations

from collections.abc import Sequence

from dmlgraph._native import cpu_steps
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.devices.cpu.element_wise import dequantized
from dmlgraph.devices.cpu.expressions import Expression, Operand, apply, instructions
from dmlgraph.devices.cpu.lowering import Lowerings, lowers
from dmlgraph.devices.cpu.nodes import Instruction, Lowered
from dmlgraph.devices.cpu.parts import Parts, Tensor
from dmlgraph.devices.cpu.products import SUMS
from dmlgraph.devices.cpu.windows import placement
from dmlgraph.operators.convolution import ConvolutionInteger, QuantizedLinearConvolution
from dmlgraph.operators.matrix_integer import (
    MatrixMultiplyInteger,
    MatrixMultiplyIntegerToFloat,
    QuantizedLinearMatrixMultiply,
)

_SUMS = Operand(0, DataType.INT32)
_FOLLOWING = 2  # the port of the first tensor that instructions read
_MOST_TERMS = 2**31 // 255**2  # a sum of so many products of centred 8-bit integers is within int32
_GEMM = cpu_steps.Gemm(transposes_a=False, transposes_b=False)


def _product(
    parts: Parts, step: cpu_steps.Step, fields: tuple[str, str], output: TensorDesc,
    read: Sequence[Tensor] = (), followers: tuple[Instruction, ...] | None = (),
) -> Lowered:  # fmt: skip
    """The step whose operands are these fields; their zero points are fields, too.

    Operand k + 2 of the followers is the tensor read[k].
    """
    repeated = [each.as_desc(each.desc.broadcast_to(output.sizes)) for each in read]
    zero_points = [f"{field}_zero_point" for field in fields]
    inputs = [*(parts.input(field) for field in fields), *repeated]
    last = [parts.optional(field) or parts.port(field) for field in zero_points]
    return parts.step(step, *inputs, *last, output=output, followers=followers).finish()


def _requantized(
    parts: Parts, step: cpu_steps.Step, fields: tuple[str, str], factor: Expression, output: TensorDesc,
    bias: Tensor | None = None,
) -> Lowered | None:  # fmt: skip
    """The sums, with a bias, times the factor: clamp(round(…) + output zero point).

    The factor becomes a tensor of its own: one number, or one for each row, column or channel.
    """
    read = [parts.store(factor), parts.optional("output_zero_point") or parts.number(0, output.dtype)]
    sums: Expression = _SUMS
    if bias is not None:
        read.append(bias)
        sums = apply("ADD_TO_FLOAT", sums, Operand(_FOLLOWING + 2, DataType.INT32), result=DataType.FLOAT32)
    by, zero_point = (Operand(_FOLLOWING + k, each.dtype) for k, each in enumerate(read[:2]))
    result = apply("REQUANTIZE", sums, by, zero_point, of=sums.dtype, result=output.dtype)
    followers = instructions(result)
    return None if followers is None else _product(parts, step, fields, output, read, followers)


def _multiply(operator: MatrixMultiplyInteger) -> Lowered:
    return _product(Parts(operator), _GEMM, ("a", "b"), operator.output)


def _quantized_multiply(operator: QuantizedLinearMatrixMultiply) -> Lowered | None:
    if operator.a.sizes[-1] > _MOST_TERMS:
        return None
    parts = Parts(operator)
    a_scale, b_scale, scale = (parts.input(field) for field in ("a_scale", "b_scale", "output_scale"))
    factor = b_scale * (a_scale / scale)  # the order decides on exact halves
    return _requantized(parts, _GEMM, ("a", "b"), factor, operator.output)


def _convolve(operator: ConvolutionInteger) -> Lowered:
    return _product(Parts(operator), _convolution(operator), ("input", "filter"), operator.output)


def _quantized_convolve(operator: QuantizedLinearConvolution) -> Lowered | None:
    if operator.filter.sizes[1] * operator.window.tap_count > _MOST_TERMS:
        return None
    parts = Parts(operator)
    x_scale, filter_scale, scale = (parts.input(field) for field in ("input_scale", "filter_scale", "output_scale"))
    factor = x_scale * filter_scale / scale
    step, bias = _convolution(operator), parts.optional("bias")
    return _requantized(parts, step, ("input", "filter"), factor, operator.output, bias)


def _convolution(operator: ConvolutionInteger | QuantizedLinearConvolution) -> cpu_steps.Convolution:
    groups, window = operator.group_count, operator.window
    return cpu_steps.Convolution(groups=groups, mirrored=False, backward=False, **placement(window))


def _to_float(operator: MatrixMultiplyIntegerToFloat) -> Lowered | None:
    """Both operands as floats, rounded to the output's type, then their product."""
    parts, dtype = Parts(operator), operator.output.dtype
    read = [_dequantized(parts, field, dtype) for field in ("a", "b")]
    bias = parts.optional("bias")
    sums: Expression = SUMS
    if bias is not None:
        sums = sums + Operand(_FOLLOWING, bias.dtype).convert(DataType.FLOAT32)
        read.append(bias)
    followers = instructions(sums.convert(dtype))
    if followers is None:
        return None
    return parts.step(_GEMM, *read, output=operator.output, followers=followers).finish()


def _dequantized(parts: Parts, field: str, dtype: DataType) -> Tensor:
    x = parts.input(field)
    number = dequantized(x, parts.input(f"{field}_scale"), parts.optional(f"{field}_zero_point"))
    return parts.store(number, TensorDesc(dtype=dtype, sizes=x.desc.sizes))


INTEGER_PRODUCTS: Lowerings = {
    **lowers(_multiply, MatrixMultiplyInteger),
    **lowers(_quantized_multiply, QuantizedLinearMatrixMultiply),
    **lowers(_convolve, ConvolutionInteger),
    **lowers(_quantized_convolve, QuantizedLinearConvolution),
    **lowers(_to_float, MatrixMultiplyIntegerToFloat),
}
