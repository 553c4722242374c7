"""Quantized sums, and quantization by a tensor's own range, as parts, see dmlgraph.devices.cpu.parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dmlgraph.devices.cpu.element_wise import Code, Instruction, Value
from dmlgraph.devices.cpu.parts import Parts, Tensor, operands
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.quantization import DynamicQuantizeLinear, QuantizedLinearAdd
from dmlgraph.tensor import DataType, TensorDesc

Payload = tuple[str, Any]

_SINGLE = DataType.FLOAT32


def _add(operator: QuantizedLinearAdd) -> Payload | None:
    tensors = [Tensor(port, desc) for port, desc in enumerate(operator.input_descs) if desc is not None]
    values = dict(zip(operator.input_fields, [None] * len(operator.input_fields), strict=True)) | {
        operator.input_fields[each.source]: value for each, value in zip(tensors, operands(*tensors), strict=True)
    }
    code = Code()
    numbers = [_number(code, *(values[f"{field}{part}"] for part in ("", "_scale", "_zero_point"))) for field in "ab"]
    scale, zero_point = values["output_scale"], values["output_zero_point"]
    assert scale is not None
    _quantize(code, code.add("ADD", *numbers), scale, zero_point, operator.output.dtype)
    parts = Parts()
    parts.compute(code, *tensors, output=operator.output)
    return parts.finish()


def _number(code: Code, x: Value | None, scale: Value | None, zero_point: Value | None) -> Value:
    """(x − zero point) · scale"""
    assert x is not None
    assert scale is not None
    factor = code.convert(scale, _SINGLE)
    if zero_point is None:
        return code.append(Instruction("DEQUANTIZE", (x.place, factor.place), x.dtype, _SINGLE))
    places = (x.place, factor.place, zero_point.place)
    return code.append(Instruction("DEQUANTIZE_FROM", places, x.dtype, _SINGLE))


def _quantize(code: Code, x: Value, scale: Value, zero_point: Value | None, dtype: DataType) -> Value:
    """round(x / scale) + zero point, in the range of the type."""
    divisor = code.convert(scale, _SINGLE)
    if zero_point is None:
        return code.add("QUANTIZE", x, divisor, result=dtype)
    places = (x.place, divisor.place, zero_point.place)
    return code.append(Instruction("QUANTIZE_FROM", places, _SINGLE, dtype))


def _by_range(operator: DynamicQuantizeLinear) -> Payload | None:
    """A NaN makes the scale NaN: reductions to an extreme leave it out, so that NaNs are looked for."""
    parts, dtype = Parts(), operator.output.dtype
    low, high = dtype.range
    axes = tuple(range(operator.input.rank))
    one = (1,) * operator.input.rank
    x = parts.single(Tensor(0, operator.input))
    code = Code()
    code.add("IS_NAN", *operands(x), result=DataType.UINT8)
    nan = parts.compute(code, x, output=TensorDesc(dtype=DataType.UINT8, sizes=operator.input.sizes))
    extremes = [parts.reduce(name, x, axes, _SINGLE) for name in ("MIN", "MAX")]
    any_nan = parts.reduce("MAX", nan, axes, DataType.UINT8)
    rank = operator.input.rank
    zero, undefined = (parts.number(number, _SINGLE, rank) for number in (0.0, math.nan))

    code = Code()
    least, greatest, is_nan, none, without = operands(*extremes, any_nan, zero, undefined)
    bottom, top = code.add("MIN", least, none), code.add("MAX", greatest, none)
    factor = float(np.float32(1 / (high - low)))
    range_ = code.add("LINEAR", code.add("SUBTRACT", top, bottom), immediates=(factor, 0.0))
    code.add("IF", is_nan, without, range_)
    scale = parts.compute(code, *extremes, any_nan, zero, undefined, output=TensorDesc(dtype=_SINGLE, sizes=one))

    code = Code()
    least, divisor, none, first = operands(extremes[0], scale, zero, start := parts.number(low, dtype, rank))
    _quantize(code, code.add("MIN", least, none), code.add("NEGATE", divisor), first, dtype)
    zero_point = parts.compute(code, extremes[0], scale, zero, start, output=TensorDesc(dtype=dtype, sizes=one))

    code = Code()
    number, divisor, first = operands(x, scale, zero_point)
    _quantize(code, number, divisor, first, dtype)
    parts.compute(code, x, scale, zero_point, output=operator.output)
    for made, desc in ((scale, operator.output_scale), (zero_point, operator.output_zero_point)):
        parts.copy(made, desc)
    return parts.finish()


QUANTIZED: Mapping[type[Operator], Callable[[Any], Payload | None]] = {
    QuantizedLinearAdd: _add,
    DynamicQuantizeLinear: _by_range,
}
