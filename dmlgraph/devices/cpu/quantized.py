"""Quantization by blocks or by a tensor's own range, and quantized sums, as parts, see dmlgraph.devices.cpu.parts."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np

from dmlgraph.base.tensor import MAX_RANK, DataType, TensorDesc
from dmlgraph.devices.cpu.element_wise import dequantized, quantized
from dmlgraph.devices.cpu.expressions import apply, choose
from dmlgraph.devices.cpu.lowering import Lowerings, lowers
from dmlgraph.devices.cpu.nodes import Lowered
from dmlgraph.devices.cpu.parts import Parts
from dmlgraph.operators.quantization import Dequantize, DynamicQuantizeLinear, Quantize, QuantizedLinearAdd

_SINGLE = DataType.FLOAT32


def _add(operator: QuantizedLinearAdd) -> Lowered:
    parts = Parts(operator)
    a, b = (
        dequantized(parts.input(field), parts.input(f"{field}_scale"), parts.optional(f"{field}_zero_point"))
        for field in "ab"
    )
    scale, zero_point = parts.input("output_scale"), parts.optional("output_zero_point")
    return parts.store(quantized(a + b, scale, zero_point, operator.output.dtype), operator.output).finish()


def _by_range(operator: DynamicQuantizeLinear) -> Lowered:
    """A NaN makes the scale NaN: reductions to an extreme leave it out, so that NaNs are looked for."""
    parts, dtype, rank = Parts(operator), operator.output.dtype, operator.input.rank
    low, high = dtype.range
    axes = tuple(range(rank))
    x = parts.input("input").single()
    nan = parts.store(x.apply("IS_NAN", result=DataType.UINT8))
    least, greatest, is_nan = x.min(axes), x.max(axes), nan.max(axes)
    zero, undefined = (parts.number(number, _SINGLE, rank) for number in (0.0, math.nan))
    bottom, top = apply("MIN", least, zero), apply("MAX", greatest, zero)
    range_ = (top - bottom).linear(float(np.float32(1 / (high - low))))
    scale = parts.store(choose(is_nan, undefined, range_))
    start = parts.number(low, dtype, rank)
    zero_point = parts.store(quantized(apply("MIN", least, zero), -scale, start, dtype))
    parts.store(quantized(x, scale, zero_point, dtype), operator.output)
    scale.copy(operator.output_scale)
    return zero_point.copy(operator.output_zero_point).finish()


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


def _by_blocks(operator: Dequantize | Quantize) -> Lowered | None:
    """Element-wise along dimensions of blocks, and of the places in a block, where scales and zero points repeat."""
    sizes, parts = operator.input.sizes, Parts(operator)
    steps = block_steps(sizes, list(operator.quantizations))
    if steps is None:
        return None
    x, *given = (each.as_desc(in_steps(each.desc, steps, sizes)) for each in parts.inputs())
    scale, *zero_points = given or [parts.number(1, _SINGLE, len(steps))]
    zero_point = zero_points[0] if zero_points else None
    output = in_steps(operator.output, steps, sizes)
    if isinstance(operator, Dequantize):
        result = dequantized(x, scale, zero_point)
    else:
        result = quantized(x, scale, zero_point, output.dtype)
    return parts.store(result, output).finish()


QUANTIZED: Lowerings = {
    **lowers(_by_blocks, Dequantize),
    **lowers(_by_blocks, Quantize),
    **lowers(_add, QuantizedLinearAdd),
    **lowers(_by_range, DynamicQuantizeLinear),
}
