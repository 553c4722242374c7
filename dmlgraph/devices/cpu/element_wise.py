"""Element-wise operators as instructions: which native kernels compute one element's result from its operands.

The kernels' opcodes are those of native/cpu/kernels/opcodes.h.  Every instruction rounds its result to its type.  So a
float16 operator that rounds only once is one instruction, or converts to float32 and back.
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dmlgraph._native import cpu_kernels
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.operators import activation, bitwise, element_wise, gradient, logical, quantization, trigonometric
from dmlgraph.operators.common.numerics import FLOAT16_MAX
from dmlgraph.operators.declaration.fused import FusedActivation
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.directml_enums import IsInfinityMode, RoundingMode
from dmlgraph.operators.fill import FillValueSequence


class Instruction(NamedTuple):
    """One kernel over a block.

    Attributes:
        opcode: the kernel's name.
        operands: k ≥ 0 is the node's input port k; ~j < 0 is the result of the node's instruction j.
        operand_type: the type of the operands, except where the opcode says otherwise.
        result_type: the type of the result.
        immediates: int or float, as the opcode expects them.
    """

    opcode: str
    operands: tuple[int, ...]
    operand_type: DataType
    result_type: DataType
    immediates: tuple[int | float, ...] = ()


def instructions(operator: Operator) -> tuple[Instruction, ...] | None:
    """The instructions that compute the node's output, which is the last one's result.

    An empty tuple means that the output equals the first input.  Returns None if the operator is not element-wise, or
    if there is no kernel for its data types.
    """
    writer = _WRITERS.get(type(operator))
    if writer is None:
        return None
    code = Code()
    result = writer(code, operator)
    if result is None:
        return None
    dtype = operator.first_output.dtype
    if dtype.bits == 4:
        return None
    code.convert(result, dtype)
    return code.finish()


class Value(NamedTuple):
    """An operand's number in instructions, and its type."""

    place: int
    dtype: DataType


class Code:
    """Collects the instructions of a node."""

    def __init__(self) -> None:
        self._written: list[Instruction] = []

    def add(
        self, opcode: str, *operands: Value, result: DataType | None = None, immediates: tuple[int | float, ...] = ()
    ) -> Value:
        """Adds an instruction; its operand type is the last operand's."""
        dtype = operands[-1].dtype
        result = result or dtype
        self._written.append(Instruction(opcode, tuple([each.place for each in operands]), dtype, result, immediates))
        return Value(~(len(self._written) - 1), result)

    def convert(self, value: Value, dtype: DataType) -> Value:
        return value if value.dtype is dtype else self.add("CONVERT", value, result=dtype)

    def append(self, instruction: Instruction) -> Value:
        self._written.append(instruction)
        return Value(~(len(self._written) - 1), instruction.result_type)

    def finish(self) -> tuple[Instruction, ...] | None:
        """The instructions; None if a kernel is missing."""
        return tuple(self._written) if all(_exists(each[0], each[2], each[3]) for each in self._written) else None


@functools.cache
def _exists(opcode: str, operand: DataType, result: DataType) -> bool:
    return cpu_kernels.has_kernel(opcode, operand.value, result.value, "baseline")  # all levels have the same kernels


Function = Callable[[Code, Any, Value], Value | None]  # takes the operator and its (scaled) input
Writer = Callable[[Code, Any], Value | None]


# Functions of one tensor.


def _function(opcode: str, *attributes: str) -> Callable[[Code, Any, Value], Value]:
    """An opcode of one operand whose immediates are FLOAT attributes."""

    def write(code: Code, operator: Any, x: Value) -> Value:
        return code.add(opcode, x, immediates=tuple([getattr(operator, name) for name in attributes]))

    return write


def _same(_code: Code, _operator: Operator, x: Value) -> Value:
    return x


def _whole(number: float, dtype: DataType) -> int:
    """A FLOAT attribute as an integer of the type: truncated, clamped to the range; 0 for NaN."""
    low, high = dtype.range
    if math.isnan(number):
        return 0
    return int(min(max(number, low), high))


def _bound(number: float, dtype: DataType) -> int | float:
    """`finite_bound` of the reference, as an immediate."""
    if not dtype.is_float:
        return _whole(number, dtype)
    if dtype is DataType.FLOAT16:
        (half,) = struct.unpack("e", struct.pack("e", min(max(number, -FLOAT16_MAX), FLOAT16_MAX)))
        return float(half)
    return number


def _clip(code: Code, operator: element_wise.Clip, x: Value) -> Value:
    dtype = operator.input.dtype
    return code.add("CLIP", x, immediates=(_bound(operator.min, dtype), _bound(operator.max, dtype)))


def _clip1(code: Code, operator: element_wise.Clip1, x: Value) -> Value:
    return code.add("CLIP", x, immediates=(operator.min.value.item(), operator.max.value.item()))


def _threshold(code: Code, operator: element_wise.Threshold, x: Value) -> Value:
    # 16-bit integers are compared as 32-bit ones, and a float16 with a float32 bound.
    if x.dtype in _WIDE:
        x = code.convert(x, _WIDE[x.dtype])
    bound = operator.min if x.dtype.is_float else _whole(operator.min, x.dtype)
    return code.add("THRESHOLD", x, immediates=(bound,))


_WIDE = {DataType.INT16: DataType.INT32, DataType.UINT16: DataType.UINT32}


def _round(code: Code, operator: element_wise.Round, x: Value) -> Value:
    return code.add(_ROUNDINGS[operator.rounding_mode], x)


_ROUNDINGS = {
    RoundingMode.HALVES_TO_NEAREST_EVEN: "ROUND_TO_EVEN",
    RoundingMode.TOWARD_ZERO: "TRUNCATE",
    RoundingMode.TOWARD_INFINITY: "ROUND_AWAY",
}


def _constant_pow(code: Code, operator: element_wise.ConstantPow, x: Value) -> Value:
    if operator.exponent == 2:
        return code.add("MULTIPLY", x, x)
    return code.add("CONSTANT_POW", x, immediates=(operator.exponent,))


_SHRINK = _function("SHRINK", "bias", "threshold")


def _shrink(code: Code, operator: activation.ActivationShrink, x: Value) -> Value:
    if x.dtype.is_float:
        return _SHRINK(code, operator, x)
    # Integers are computed in float32 and rounded; 16 bits keep the low half of a 32-bit integer.
    shrunk = _SHRINK(code, operator, code.convert(x, DataType.FLOAT32))
    rounded = code.add("ROUND_TO_EVEN", shrunk)
    return code.convert(rounded, _WIDE[x.dtype]) if x.dtype in _WIDE else rounded


def _thresholded_relu(code: Code, operator: activation.ActivationThresholdedRelu, x: Value) -> Value:
    return _above(code, operator, x, operator.input.dtype)


def _above(code: Code, operator: activation.ActivationThresholdedRelu, x: Value, dtype: DataType) -> Value:
    opcode = "ABOVE_OR_ZERO" if dtype is DataType.FLOAT16 else "THRESHOLDED_RELU"
    return code.add(opcode, x, immediates=(operator.alpha,))


def _question(opcode: str) -> Function:
    def write(code: Code, _operator: Operator, x: Value) -> Value:
        return code.add(opcode, x, result=DataType.UINT8)

    return write


def _is_infinity(code: Code, operator: logical.IsInfinity, x: Value) -> Value:
    return code.add("IS_INFINITY", x, result=DataType.UINT8, immediates=(_INFINITIES[operator.infinity_mode],))


_INFINITIES = {IsInfinityMode.EITHER: 0, IsInfinityMode.POSITIVE: 1, IsInfinityMode.NEGATIVE: -1}

_FUNCTIONS: dict[type[Operator], Function] = {
    element_wise.Identity: _same,
    element_wise.Cast: _same,
    element_wise.Abs: _function("ABS"),
    element_wise.Exp: _function("EXP"),
    element_wise.Log: _function("LOG"),
    element_wise.Sqrt: _function("SQRT"),
    element_wise.Clip: _clip,
    element_wise.Clip1: _clip1,
    element_wise.Recip: _function("RECIP"),
    element_wise.Erf: _function("ERF"),
    element_wise.Floor: _function("FLOOR"),
    element_wise.Ceil: _function("CEIL"),
    element_wise.Round: _round,
    element_wise.Sign: _function("SIGN"),
    element_wise.Threshold: _threshold,
    element_wise.ConstantPow: _constant_pow,
    element_wise.Negate: _function("NEGATE"),
    trigonometric.Sin: _function("SIN"),
    trigonometric.Cos: _function("COS"),
    trigonometric.Tan: _function("TAN"),
    trigonometric.Asin: _function("ASIN"),
    trigonometric.Acos: _function("ACOS"),
    trigonometric.Atan: _function("ATAN"),
    trigonometric.Sinh: _function("SINH"),
    trigonometric.Cosh: _function("COSH"),
    trigonometric.Tanh: _function("TANH"),
    trigonometric.Asinh: _function("ASINH"),
    trigonometric.Acosh: _function("ACOSH"),
    trigonometric.Atanh: _function("ATANH"),
    activation.ActivationIdentity: _same,
    activation.ActivationLinear: _function("LINEAR", "alpha", "beta"),
    activation.ActivationRelu: _function("RELU"),
    activation.ActivationLeakyRelu: _function("LEAKY_RELU", "alpha"),
    activation.ActivationThresholdedRelu: _thresholded_relu,
    activation.ActivationElu: _function("ELU", "alpha"),
    activation.ActivationCelu: _function("CELU", "alpha"),
    activation.ActivationScaledElu: _function("SCALED_ELU", "alpha", "gamma"),
    activation.ActivationSigmoid: _function("SIGMOID"),
    activation.ActivationHardSigmoid: _function("HARD_SIGMOID", "alpha", "beta"),
    activation.ActivationTanh: _function("TANH"),
    activation.ActivationScaledTanh: _function("SCALED_TANH", "alpha", "beta"),
    activation.ActivationSoftplus: _function("SOFTPLUS", "steepness"),
    activation.ActivationParametricSoftplus: _function("PARAMETRIC_SOFTPLUS", "alpha", "beta"),
    activation.ActivationSoftsign: _function("SOFTSIGN"),
    activation.ActivationShrink: _shrink,
    activation.ActivationGelu: _function("GELU"),
    activation.ActivationSwish: _function("SWISH", "sigmoid_input_scale"),
    activation.ActivationHardSwish: _function("HARD_SWISH", "alpha", "beta"),
    bitwise.BitNot: _function("BIT_NOT"),
    bitwise.BitCount: _question("BIT_COUNT"),
    logical.LogicalNot: _function("LOGICAL_NOT"),
    logical.IsNan: _question("IS_NAN"),
    logical.IsInfinity: _is_infinity,
}


def _scaled(code: Code, operator: Any, x: Value) -> Value:
    """The input after the operator's scale and bias; integers become 32-bit ones."""
    scale_bias = operator.scale_bias
    if scale_bias is None or scale_bias.changes_nothing:
        return x
    if x.dtype is DataType.FLOAT16 and getattr(operator, "half_type", None) is np.float32:
        x = code.convert(x, DataType.FLOAT32)  # scale, bias and function are rounded once, at the end
    wide = x.dtype
    if not wide.is_float:
        wide = DataType.INT32 if wide.is_signed else DataType.UINT32
    return code.add("SCALE_BIAS", x, result=wide, immediates=(scale_bias.scale, scale_bias.bias))


def _unary(function: Function) -> Writer:
    def write(code: Code, operator: Any) -> Value | None:
        return function(code, operator, Value(0, operator.input.dtype))

    return write


def _scaled_unary(function: Function) -> Writer:
    def write(code: Code, operator: Any) -> Value | None:
        return function(code, operator, _scaled(code, operator, Value(0, operator.input.dtype)))

    return write


def activate(code: Code, fused: FusedActivation, x: Value, dtype: DataType) -> Value | None:
    """Adds an activation of x, fused into an operator whose output has `dtype`; None if it has no instructions."""
    function = _FUNCTIONS.get(fused.operator)
    if function is None:
        return None
    operator = fused.on(TensorDesc(dtype=x.dtype, sizes=(1,)))
    if isinstance(operator, activation.ActivationThresholdedRelu):
        return _above(code, operator, x, dtype)
    return function(code, operator, x)


# Functions of several tensors.


def _inputs(operator: Operator) -> list[Value]:
    """The operator's inputs, none of which may be absent."""
    return [Value(port, getattr(operator, field).dtype) for port, field in enumerate(operator.input_fields)]


def _binary(opcode: str) -> Writer:
    def write(code: Code, operator: Operator) -> Value:
        return code.add(opcode, *_inputs(operator))

    return write


def _comparison(opcode: str, *, swapped: bool = False) -> Writer:
    def write(code: Code, operator: Operator) -> Value:
        a, b = _inputs(operator)
        return code.add(opcode, *((b, a) if swapped else (a, b)), result=DataType.UINT8)

    return write


def _add1(code: Code, operator: element_wise.Add1) -> Value | None:
    a, b = _inputs(operator)
    if operator.fused_activation is None:
        return code.add("ADD", a, b)
    # The activation sees the float32 sum.
    total = code.add("ADD", code.convert(a, DataType.FLOAT32), code.convert(b, DataType.FLOAT32))
    return activate(code, operator.fused_activation, total, operator.output.dtype)


def _pow(code: Code, operator: element_wise.Pow) -> Value:
    x, exponent = _inputs(operator)
    if operator.typed:
        x, exponent = (
            _scaled(code, operator, code.convert(each, DataType.FLOAT32) if each.dtype.is_float else each)
            for each in (x, exponent)
        )
    else:
        x, exponent = (_scaled_in_type(code, operator, each) for each in (x, exponent))
    if not x.dtype.is_float and not exponent.dtype.is_float:
        saturates = operator.typed and operator.input.dtype in _WIDE
        x = code.convert(x, _WIDE[operator.input.dtype]) if saturates else x
        power = Value(code.convert(exponent, DataType.INT64).place, x.dtype)
        result = code.add("INTEGER_POW", x, power)
        return code.add("CLIP", result, immediates=operator.input.dtype.range) if saturates else result
    if x.dtype is exponent.dtype:
        return code.add("POW", x, exponent)
    if operator.input.dtype is DataType.FLOAT16:
        return code.add("POW", *(code.convert(each, DataType.FLOAT32) for each in (x, exponent)))
    power = code.add("POW", code.convert(x, DataType.FLOAT64), code.convert(exponent, DataType.FLOAT64))
    # A power that becomes an integer is rounded to float32 before it is truncated.
    return power if x.dtype.is_float else code.convert(power, DataType.FLOAT32)


def _scaled_in_type(code: Code, operator: element_wise.Pow, x: Value) -> Value:
    """The input or exponent after the scale and bias; 16-bit integers saturate, while `_scaled` gives 32-bit ones."""
    scaled = _scaled(code, operator, x)
    if x.dtype not in _WIDE or scaled is x:
        return scaled
    return code.convert(code.add("CLIP", scaled, immediates=x.dtype.range), x.dtype)


def _clip_grad(code: Code, operator: gradient.ClipGrad) -> Value:
    bounds = _bound(operator.min, operator.input.dtype), _bound(operator.max, operator.input.dtype)
    return code.add("CLIP_GRAD", *_inputs(operator), immediates=bounds)


def _clip_grad1(code: Code, operator: gradient.ClipGrad1) -> Value:
    return code.add("CLIP_GRAD", *_inputs(operator), immediates=(operator.min.value.item(), operator.max.value.item()))


def _quantize(code: Code, operator: quantization.QuantizeLinear) -> Value:
    x, scale = (
        code.convert(Value(port, desc.dtype), DataType.FLOAT32)
        for port, desc in enumerate((operator.input, operator.scale))
    )
    result = operator.output.dtype
    if operator.zero_point is None:
        return code.add("QUANTIZE", x, scale, result=result)
    return code.append(Instruction("QUANTIZE_FROM", (x.place, scale.place, 2), DataType.FLOAT32, result))


def _dequantize(code: Code, operator: quantization.DequantizeLinear) -> Value:
    scale = code.convert(Value(1, operator.scale.dtype), DataType.FLOAT32)
    dtype = operator.input.dtype
    if operator.zero_point is None:
        return code.append(Instruction("DEQUANTIZE", (0, scale.place), dtype, DataType.FLOAT32))
    return code.append(Instruction("DEQUANTIZE_FROM", (0, scale.place, 2), dtype, DataType.FLOAT32))


def _sequence(code: Code, operator: FillValueSequence) -> Value:
    dtype = operator.output.dtype
    immediates = (operator.value_start.bits, operator.value_delta.bits)
    return code.append(Instruction("SEQUENCE", (), dtype, dtype, immediates))


_WRITERS: dict[type[Operator], Writer] = {
    **{
        operator: (_scaled_unary if "scale_bias" in operator.fields else _unary)(function)
        for operator, function in _FUNCTIONS.items()
    },
    element_wise.Add: _binary("ADD"),
    element_wise.Add1: _add1,
    element_wise.Subtract: _binary("SUBTRACT"),
    element_wise.Multiply: _binary("MULTIPLY"),
    element_wise.Divide: _binary("DIVIDE"),
    element_wise.Max: _binary("MAX"),
    element_wise.Min: _binary("MIN"),
    element_wise.Mean: _binary("MEAN"),
    element_wise.DifferenceSquare: _binary("DIFFERENCE_SQUARE"),
    element_wise.ModulusTruncate: _binary("MODULUS_TRUNCATE"),
    element_wise.ModulusFloor: _binary("MODULUS_FLOOR"),
    element_wise.Pow: _pow,
    element_wise.If: _binary("IF"),
    trigonometric.AtanYx: _binary("ATAN_YX"),
    activation.ActivationParameterizedRelu: _binary("PARAMETERIZED_RELU"),
    gradient.ActivationReluGrad: _binary("RELU_GRAD"),
    gradient.ClipGrad: _clip_grad,
    gradient.ClipGrad1: _clip_grad1,
    bitwise.BitAnd: _binary("BIT_AND"),
    bitwise.BitOr: _binary("BIT_OR"),
    bitwise.BitXor: _binary("BIT_XOR"),
    bitwise.BitShiftLeft: _binary("SHIFT_LEFT"),
    bitwise.BitShiftRight: _binary("SHIFT_RIGHT"),
    logical.LogicalEquals: _comparison("EQUAL"),
    logical.LogicalLessThan: _comparison("LESS"),
    logical.LogicalLessThanOrEqual: _comparison("LESS_OR_EQUAL"),
    logical.LogicalGreaterThan: _comparison("LESS", swapped=True),
    logical.LogicalGreaterThanOrEqual: _comparison("LESS_OR_EQUAL", swapped=True),
    logical.LogicalAnd: _binary("LOGICAL_AND"),
    logical.LogicalOr: _binary("LOGICAL_OR"),
    logical.LogicalXor: _binary("LOGICAL_XOR"),
    quantization.QuantizeLinear: _quantize,
    quantization.DequantizeLinear: _dequantize,
    FillValueSequence: _sequence,
}
