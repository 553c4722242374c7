"""Element-wise operators as instructions: which native kernels compute one element's result from its operands.

The kernels' opcodes are those of native/cpu/kernels/opcodes.h.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.devices.cpu.expressions import Expression, Operand, apply, instructions, sequence
from dmlgraph.devices.cpu.lowering import Lowerings, lowers
from dmlgraph.devices.cpu.nodes import ElementWise
from dmlgraph.operators import activation, bitwise, element_wise, gradient, logical, quantization, trigonometric
from dmlgraph.operators.common.element_wise import ScaledUnary, Unary
from dmlgraph.operators.common.numerics import FLOAT16_MAX
from dmlgraph.operators.declaration.fields import ScaleBias
from dmlgraph.operators.declaration.fused import FusedActivation
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.directml_enums import IsInfinityMode, RoundingMode
from dmlgraph.operators.fill import FillValueSequence

Op = TypeVar("Op", bound=Operator)
Function = Callable[[Any, Expression], Expression]  # of the operator and its (scaled) input


# Functions of one tensor.


def _functions(
    function: Callable[[Op, Expression], Expression], *operators: type[Op]
) -> dict[type[Operator], Function]:
    """Entries of a table, in which mypy checks that the function takes these operators."""
    return dict.fromkeys(operators, function)


def _named(opcode: str) -> Callable[[Operator, Expression], Expression]:
    return lambda _, x: x.apply(opcode)


def _same(_operator: Operator, x: Expression) -> Expression:
    return x


def _question(opcode: str) -> Callable[[Operator, Expression], Expression]:
    return lambda _, x: x.apply(opcode, result=DataType.UINT8)


def _whole(number: float, dtype: DataType) -> int:
    """A FLOAT attribute as an integer of the type: truncated, clamped to the range; 0 for NaN."""
    low, high = dtype.range
    if math.isnan(number):
        return 0
    return int(min(max(number, low), high))


def _bound(number: float, dtype: DataType) -> float:
    """`finite_bound` of the reference, as an immediate."""
    if not dtype.is_float:
        return _whole(number, dtype)
    if dtype is DataType.FLOAT16:
        (half,) = struct.unpack("e", struct.pack("e", min(max(number, -FLOAT16_MAX), FLOAT16_MAX)))
        return float(half)
    return number


def _clip(operator: element_wise.Clip, x: Expression) -> Expression:
    dtype = operator.input.dtype
    return x.apply("CLIP", _bound(operator.min, dtype), _bound(operator.max, dtype))


def _clip1(operator: element_wise.Clip1, x: Expression) -> Expression:
    return x.apply("CLIP", operator.min.value.item(), operator.max.value.item())


_WIDE = {DataType.INT16: DataType.INT32, DataType.UINT16: DataType.UINT32}


def _threshold(operator: element_wise.Threshold, x: Expression) -> Expression:
    # 16-bit integers are compared as 32-bit ones, and a float16 with a float32 bound.
    x = x.convert(_WIDE.get(x.dtype, x.dtype))
    return x.apply("THRESHOLD", operator.min if x.dtype.is_float else _whole(operator.min, x.dtype))


_ROUNDINGS = {
    RoundingMode.HALVES_TO_NEAREST_EVEN: "ROUND_TO_EVEN",
    RoundingMode.TOWARD_ZERO: "TRUNCATE",
    RoundingMode.TOWARD_INFINITY: "ROUND_AWAY",
}


def _constant_pow(operator: element_wise.ConstantPow, x: Expression) -> Expression:
    return x * x if operator.exponent == 2 else x.apply("CONSTANT_POW", operator.exponent)


def _shrink(operator: activation.ActivationShrink, x: Expression) -> Expression:
    dtype = x.dtype
    if dtype.is_float:
        return x.apply("SHRINK", operator.bias, operator.threshold)
    # Integers are computed in float32 and rounded; 16 bits keep the low half of a 32-bit integer.
    shrunk = x.convert(DataType.FLOAT32).apply("SHRINK", operator.bias, operator.threshold).apply("ROUND_TO_EVEN")
    return shrunk.convert(_WIDE[dtype]) if dtype in _WIDE else shrunk


def _above(operator: activation.ActivationThresholdedRelu, x: Expression, dtype: DataType) -> Expression:
    return x.apply("ABOVE_OR_ZERO" if dtype is DataType.FLOAT16 else "THRESHOLDED_RELU", operator.alpha)


_INFINITIES = {IsInfinityMode.EITHER: 0, IsInfinityMode.POSITIVE: 1, IsInfinityMode.NEGATIVE: -1}


def _is_infinity(operator: logical.IsInfinity, x: Expression) -> Expression:
    return x.apply("IS_INFINITY", _INFINITIES[operator.infinity_mode], result=DataType.UINT8)


_FUNCTIONS: Mapping[type[Operator], Function] = {
    **_functions(_same, element_wise.Identity, activation.ActivationIdentity),
    **_functions(_named("ABS"), element_wise.Abs),
    **_functions(_named("EXP"), element_wise.Exp),
    **_functions(_named("LOG"), element_wise.Log),
    **_functions(_named("SQRT"), element_wise.Sqrt),
    **_functions(_clip, element_wise.Clip),
    **_functions(_clip1, element_wise.Clip1),
    **_functions(_named("RECIP"), element_wise.Recip),
    **_functions(_named("ERF"), element_wise.Erf),
    **_functions(_named("FLOOR"), element_wise.Floor),
    **_functions(_named("CEIL"), element_wise.Ceil),
    **_functions(lambda op, x: x.apply(_ROUNDINGS[op.rounding_mode]), element_wise.Round),
    **_functions(_named("SIGN"), element_wise.Sign),
    **_functions(_threshold, element_wise.Threshold),
    **_functions(_constant_pow, element_wise.ConstantPow),
    **_functions(_named("NEGATE"), element_wise.Negate),
    **_functions(_named("SIN"), trigonometric.Sin),
    **_functions(_named("COS"), trigonometric.Cos),
    **_functions(_named("TAN"), trigonometric.Tan),
    **_functions(_named("ASIN"), trigonometric.Asin),
    **_functions(_named("ACOS"), trigonometric.Acos),
    **_functions(_named("ATAN"), trigonometric.Atan),
    **_functions(_named("SINH"), trigonometric.Sinh),
    **_functions(_named("COSH"), trigonometric.Cosh),
    **_functions(_named("TANH"), trigonometric.Tanh, activation.ActivationTanh),
    **_functions(_named("ASINH"), trigonometric.Asinh),
    **_functions(_named("ACOSH"), trigonometric.Acosh),
    **_functions(_named("ATANH"), trigonometric.Atanh),
    **_functions(lambda op, x: x.linear(op.alpha, op.beta), activation.ActivationLinear),
    **_functions(_named("RELU"), activation.ActivationRelu),
    **_functions(lambda op, x: x.apply("LEAKY_RELU", op.alpha), activation.ActivationLeakyRelu),
    **_functions(lambda op, x: _above(op, x, op.input.dtype), activation.ActivationThresholdedRelu),
    **_functions(lambda op, x: x.apply("ELU", op.alpha), activation.ActivationElu),
    **_functions(lambda op, x: x.apply("CELU", op.alpha), activation.ActivationCelu),
    **_functions(lambda op, x: x.apply("SCALED_ELU", op.alpha, op.gamma), activation.ActivationScaledElu),
    **_functions(_named("SIGMOID"), activation.ActivationSigmoid),
    **_functions(lambda op, x: x.apply("HARD_SIGMOID", op.alpha, op.beta), activation.ActivationHardSigmoid),
    **_functions(lambda op, x: x.apply("SCALED_TANH", op.alpha, op.beta), activation.ActivationScaledTanh),
    **_functions(lambda op, x: x.apply("SOFTPLUS", op.steepness), activation.ActivationSoftplus),
    **_functions(
        lambda op, x: x.apply("PARAMETRIC_SOFTPLUS", op.alpha, op.beta), activation.ActivationParametricSoftplus
    ),
    **_functions(_named("SOFTSIGN"), activation.ActivationSoftsign),
    **_functions(_shrink, activation.ActivationShrink),
    **_functions(_named("GELU"), activation.ActivationGelu),
    **_functions(lambda op, x: x.apply("SWISH", op.sigmoid_input_scale), activation.ActivationSwish),
    **_functions(lambda op, x: x.apply("HARD_SWISH", op.alpha, op.beta), activation.ActivationHardSwish),
    **_functions(_named("BIT_NOT"), bitwise.BitNot),
    **_functions(_question("BIT_COUNT"), bitwise.BitCount),
    **_functions(_named("LOGICAL_NOT"), logical.LogicalNot),
    **_functions(_question("IS_NAN"), logical.IsNan),
    **_functions(_is_infinity, logical.IsInfinity),
}


def activate(fused: FusedActivation, x: Expression, dtype: DataType) -> Expression | None:
    """An activation of x, fused into an operator whose output has `dtype`; None if it is not element-wise."""
    function = _FUNCTIONS.get(fused.operator)
    if function is None:
        return None
    operator = fused.on(TensorDesc(dtype=x.dtype, sizes=(1,)))
    if isinstance(operator, activation.ActivationThresholdedRelu):
        return _above(operator, x, dtype)
    return function(operator, x)


def finished(activation: FusedActivation | None, x: Expression, dtype: DataType) -> Expression | None:
    """The activation, if there is one, of x, in the type of the output; None if it is not element-wise."""
    result = x if activation is None else activate(activation, x, dtype)
    return None if result is None else result.convert(dtype)


def _scaled(scale_bias: ScaleBias | None, x: Expression) -> Expression:
    """The number after the scale and bias; integers become 32-bit ones."""
    if scale_bias is None or scale_bias.changes_nothing:
        return x
    wide = x.dtype
    if not wide.is_float:
        wide = DataType.INT32 if wide.is_signed else DataType.UINT32
    return x.apply("SCALE_BIAS", scale_bias.scale, scale_bias.bias, result=wide)


def _argument(operator: Unary) -> Expression:
    """The operator's input after its scale and bias."""
    x: Expression = Operand(0, operator.input.dtype)
    scale_bias = operator.scale_bias if isinstance(operator, ScaledUnary) else None
    if scale_bias is None or scale_bias.changes_nothing:
        return x
    if x.dtype is DataType.FLOAT16 and operator.half_type is np.float32:
        x = x.convert(DataType.FLOAT32)  # scale, bias and function are rounded once, at the end
    return _scaled(scale_bias, x)


def _element_wise(result: Expression, dtype: DataType) -> ElementWise | None:
    """The result in the type of the output; None if a kernel is missing for some data types."""
    code = None if dtype.bits == 4 else instructions(result.convert(dtype))
    return None if code is None else ElementWise(code)


def _unary(operator: Unary) -> ElementWise | None:
    return _element_wise(_FUNCTIONS[type(operator)](operator, _argument(operator)), operator.output.dtype)


def _cast(operator: element_wise.Cast) -> ElementWise | None:
    return _element_wise(Operand(0, operator.input.dtype), operator.output.dtype)


# Functions of several tensors.


def _inputs(operator: Operator) -> list[Expression]:
    """The operator's inputs, none of which may be absent."""
    return [Operand(port, desc.dtype) for port, desc in enumerate(operator.input_descs) if desc is not None]


def _of_all(opcode: str) -> Callable[[Operator], ElementWise | None]:
    return lambda operator: _element_wise(apply(opcode, *_inputs(operator)), operator.first_output.dtype)


def _comparison(opcode: str, *, swapped: bool = False) -> Callable[[Operator], ElementWise | None]:
    def lower(operator: Operator) -> ElementWise | None:
        a, b = reversed(_inputs(operator)) if swapped else _inputs(operator)
        return _element_wise(apply(opcode, a, b, result=DataType.UINT8), operator.first_output.dtype)

    return lower


def _add1(operator: element_wise.Add1) -> ElementWise | None:
    a, b = _inputs(operator)
    dtype = operator.output.dtype
    if operator.fused_activation is None:
        return _element_wise(a + b, dtype)
    # The activation sees the float32 sum.
    total = a.convert(DataType.FLOAT32) + b.convert(DataType.FLOAT32)
    result = activate(operator.fused_activation, total, dtype)
    return None if result is None else _element_wise(result, dtype)


def _pow(operator: element_wise.Pow) -> ElementWise | None:
    return _element_wise(_power(operator), operator.output.dtype)


def _power(operator: element_wise.Pow) -> Expression:
    x, exponent = [_scaled_factor(operator, each) for each in _inputs(operator)]
    dtype = operator.input.dtype
    if not x.dtype.is_float and not exponent.dtype.is_float:
        saturates = operator.typed and dtype in _WIDE
        x = x.convert(_WIDE[dtype]) if saturates else x
        result = apply("INTEGER_POW", x, exponent.convert(DataType.INT64), of=x.dtype)
        return result.apply("CLIP", *dtype.range) if saturates else result
    if x.dtype is exponent.dtype:
        return apply("POW", x, exponent)
    if dtype is DataType.FLOAT16:
        return apply("POW", x.convert(DataType.FLOAT32), exponent.convert(DataType.FLOAT32))
    power = apply("POW", x.convert(DataType.FLOAT64), exponent.convert(DataType.FLOAT64))
    # A power that becomes an integer is rounded to float32 before it is truncated.
    return power if x.dtype.is_float else power.convert(DataType.FLOAT32)


def _scaled_factor(operator: element_wise.Pow, x: Expression) -> Expression:
    """The input or exponent after the scale and bias; 16-bit integers saturate, while `_scaled` gives 32-bit ones."""
    if operator.typed:
        return _scaled(operator.scale_bias, x.convert(DataType.FLOAT32) if x.dtype.is_float else x)
    scaled = _scaled(operator.scale_bias, x)
    if x.dtype not in _WIDE or scaled is x:
        return scaled
    return scaled.apply("CLIP", *x.dtype.range).convert(x.dtype)


def _clip_gradient(operator: gradient.ClipGrad | gradient.ClipGrad1) -> ElementWise | None:
    if isinstance(operator, gradient.ClipGrad1):
        bounds = (operator.min.value.item(), operator.max.value.item())
    else:
        bounds = (_bound(operator.min, operator.input.dtype), _bound(operator.max, operator.input.dtype))
    return _element_wise(apply("CLIP_GRAD", *_inputs(operator), immediates=bounds), operator.first_output.dtype)


# Quantization.


def quantized(x: Expression, scale: Expression, zero_point: Expression | None, dtype: DataType) -> Expression:
    """round(x / scale) + zero point, in the range of the type."""
    x, scale = x.convert(DataType.FLOAT32), scale.convert(DataType.FLOAT32)
    if zero_point is None:
        return apply("QUANTIZE", x, scale, result=dtype)
    return apply("QUANTIZE_FROM", x, scale, zero_point, of=DataType.FLOAT32, result=dtype)


def dequantized(x: Expression, scale: Expression, zero_point: Expression | None) -> Expression:
    """(x − zero point) · scale, in float32."""
    scale = scale.convert(DataType.FLOAT32)
    if zero_point is None:
        return apply("DEQUANTIZE", x, scale, of=x.dtype, result=DataType.FLOAT32)
    return apply("DEQUANTIZE_FROM", x, scale, zero_point, of=x.dtype, result=DataType.FLOAT32)


def _quantize(operator: quantization.QuantizeLinear) -> ElementWise | None:
    x, scale, *zero_point = _inputs(operator)
    dtype = operator.output.dtype
    return _element_wise(quantized(x, scale, zero_point[0] if zero_point else None, dtype), dtype)


def _dequantize(operator: quantization.DequantizeLinear) -> ElementWise | None:
    x, scale, *zero_point = _inputs(operator)
    return _element_wise(dequantized(x, scale, zero_point[0] if zero_point else None), operator.output.dtype)


def _sequence(operator: FillValueSequence) -> ElementWise | None:
    dtype = operator.output.dtype
    return _element_wise(sequence(dtype, operator.value_start.bits, operator.value_delta.bits), dtype)


ELEMENT_WISE: Lowerings = {
    **dict.fromkeys(_FUNCTIONS, _unary),
    **lowers(_cast, element_wise.Cast),
    **lowers(_of_all("ADD"), element_wise.Add),
    **lowers(_add1, element_wise.Add1),
    **lowers(_of_all("SUBTRACT"), element_wise.Subtract),
    **lowers(_of_all("MULTIPLY"), element_wise.Multiply),
    **lowers(_of_all("DIVIDE"), element_wise.Divide),
    **lowers(_of_all("MAX"), element_wise.Max),
    **lowers(_of_all("MIN"), element_wise.Min),
    **lowers(_of_all("MEAN"), element_wise.Mean),
    **lowers(_of_all("DIFFERENCE_SQUARE"), element_wise.DifferenceSquare),
    **lowers(_of_all("MODULUS_TRUNCATE"), element_wise.ModulusTruncate),
    **lowers(_of_all("MODULUS_FLOOR"), element_wise.ModulusFloor),
    **lowers(_pow, element_wise.Pow),
    **lowers(_of_all("IF"), element_wise.If),
    **lowers(_of_all("ATAN_YX"), trigonometric.AtanYx),
    **lowers(_of_all("PARAMETERIZED_RELU"), activation.ActivationParameterizedRelu),
    **lowers(_of_all("RELU_GRAD"), gradient.ActivationReluGrad),
    **lowers(_clip_gradient, gradient.ClipGrad),
    **lowers(_clip_gradient, gradient.ClipGrad1),
    **lowers(_of_all("BIT_AND"), bitwise.BitAnd),
    **lowers(_of_all("BIT_OR"), bitwise.BitOr),
    **lowers(_of_all("BIT_XOR"), bitwise.BitXor),
    **lowers(_of_all("SHIFT_LEFT"), bitwise.BitShiftLeft),
    **lowers(_of_all("SHIFT_RIGHT"), bitwise.BitShiftRight),
    **lowers(_comparison("EQUAL"), logical.LogicalEquals),
    **lowers(_comparison("LESS"), logical.LogicalLessThan),
    **lowers(_comparison("LESS_OR_EQUAL"), logical.LogicalLessThanOrEqual),
    **lowers(_comparison("LESS", swapped=True), logical.LogicalGreaterThan),
    **lowers(_comparison("LESS_OR_EQUAL", swapped=True), logical.LogicalGreaterThanOrEqual),
    **lowers(_of_all("LOGICAL_AND"), logical.LogicalAnd),
    **lowers(_of_all("LOGICAL_OR"), logical.LogicalOr),
    **lowers(_of_all("LOGICAL_XOR"), logical.LogicalXor),
    **lowers(_quantize, quantization.QuantizeLinear),
    **lowers(_dequantize, quantization.DequantizeLinear),
    **lowers(_sequence, FillValueSequence),
}
