"""Quantization by blocks or by a tensor's own range, and quantized sums, as parts, see dmlgraph.devices.cpu.parts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from dmlgraph.base.tensor import MAX_RANK, DataType, TensorDesc
from dmlgraph.devices.cpu.element_wise import Code, Instruction, Value
from dmlgraph.devices.cpu.parts import Parts, Tensor, operands
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.quantization import Dequantize, DynamicQuantizeLinear, Quantize, QuantizedLinearAdd

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


class Steps(NamedTuple):
    """A part of an axis: a number of steps of `unit` elements."""

    axis: int
    number: int
    unit: int


def block_steps(sizes: tuple[int, ...], parameters: list[TensorDesc]) -> list[Steps] | None:
    """The axes, divided where blocks of the parameters begin.

    Returns None if neither of two lengths of blocks is a multiple of the other, or if there are too many dimensions.
    """
    found = []
    for axis, size in enumerate(sizes):
        lengths = sorted({1, size, *(size // each.sizes[axis] for each in parameters)}, reverse=True)
        for length, unit in itertools.pairwise(lengths):
            if length % unit:
                return None
            found.append(Steps(axis, length // unit, unit))
    found = found or [Steps(0, 1, 1)]
    return found if len(found) <= MAX_RANK else None


def in_steps(desc: TensorDesc, steps: list[Steps], sizes: tuple[int, ...]) -> TensorDesc:
    """A tensor, or a parameter of its blocks, along the steps of an operator whose tensors have these sizes."""
    strides = []
    for axis, _, unit in steps:
        length = sizes[axis] // desc.sizes[axis]
        strides.append(unit // length * desc.effective_strides[axis])  # 0 within a block
    return TensorDesc(dtype=desc.dtype, sizes=tuple([each.number for each in steps]), strides=tuple(strides))


def _by_blocks(operator: Dequantize | Quantize) -> Payload | None:
    """Element-wise along dimensions of blocks, and of the places in a block, where scales and zero points repeat."""
    sizes, code, parts = operator.input.sizes, Code(), Parts()
    steps = block_steps(sizes, list(operator.quantizations))
    if steps is None:
        return None
    tensors = [Tensor(port, in_steps(desc, steps, sizes)) for port, desc in enumerate(operator.input_descs) if desc]
    if len(tensors) == 1:
        tensors.append(parts.number(1, _SINGLE, len(steps)))
    x, scale, *zero_point = operands(*tensors)
    output = in_steps(operator.output, steps, sizes)
    if isinstance(operator, Dequantize):
        code.convert(_number(code, x, scale, zero_point[0] if zero_point else None), output.dtype)
    else:
        _quantize(code, code.convert(x, _SINGLE), scale, zero_point[0] if zero_point else None, output.dtype)
    parts.compute(code, *tensors, output=output)
    return parts.finish()


QUANTIZED: Mapping[type[Operator], Callable[[Any], Payload | None]] = {
    Dequantize: _by_blocks,
    Quantize: _by_blocks,
    QuantizedLinearAdd: _add,
    DynamicQuantizeLinear: _by_range,
}
