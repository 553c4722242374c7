"""Products with weights in blocks: a step multiplies by 4-bit or 8-bit integers, whose floats are never in memory.

It takes the place of a GEMM that reads dequantized weights.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from dmlgraph._native import cpu_steps
from dmlgraph.base.tensor import DataType, packed_strides
from dmlgraph.devices.cpu.nodes import Lowered, Native, Part
from dmlgraph.devices.cpu.parts import Parts, Tensor, line_of
from dmlgraph.devices.cpu.quantized import block_steps, in_steps
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.directml_enums import MatrixTransform
from dmlgraph.operators.matrix import Gemm
from dmlgraph.operators.quantization import Dequantize, DequantizeLinear

_WEIGHTS = 3  # the port of the weights behind the inputs of a GEMM; their scales and zero points follow
_FEW_BITS = (DataType.INT4, DataType.UINT4, DataType.INT8, DataType.UINT8)


def block_product(gemm: Operator, weights: Operator, lowered: Lowered) -> Lowered | None:
    """The parts of a GEMM whose matrix B is dequantized, from those that read floats.

    The inputs of the dequantization are further ports.  Returns None if the weights are not of this kind.
    """
    if not isinstance(gemm, Gemm) or not isinstance(weights, Dequantize | DequantizeLinear):
        return None
    if not isinstance(lowered, tuple) or not isinstance(lowered[0].action, Native):
        return None
    step = _step(gemm, weights)
    if step is None or math.prod(gemm.a.sizes[:-2]) != 1:
        return None
    product, *others = lowered
    parts = Parts(gemm)
    integers, scale, *zero_point = (
        Tensor(parts, _WEIGHTS + port, line_of(desc, desc.dtype))
        for port, desc in enumerate(weights.input_descs)
        if desc is not None
    )
    single = scale.single()
    a, _, c = product.inputs
    nothing = _WEIGHTS + len(weights.input_descs)  # a port that has no source
    blocks = Part(
        Native(step, lowered[0].action.followers),
        (0, integers.source, 2, scale.source, zero_point[0].source if zero_point else nothing),
        (a, integers.desc, c, single.desc, zero_point[0].desc if zero_point else None),
        product.output,
    )
    return parts.extend([blocks, *others], {scale.source: single}).finish()


def _step(gemm: Gemm, weights: Dequantize | DequantizeLinear) -> cpu_steps.BlockGemm | None:
    x, matrix = weights.input, gemm.b
    is_transposed = gemm.trans_b is MatrixTransform.TRANSPOSE
    rows, columns = matrix.sizes[-2:]
    if matrix.strides is not None and matrix.strides[-2:] == (1, rows):  # the matrix lies in memory the other way
        rows, columns, is_transposed = columns, rows, not is_transposed
    elif matrix.strides is not None and matrix.effective_strides[-2:] != (columns, 1):
        return None
    packed = all(desc.strides is None for desc in (x, weights.output))
    if x.dtype not in _FEW_BITS or not packed or x.element_count != rows * columns:
        return None
    parameters = [desc for desc in weights.input_descs[1:] if desc is not None]
    steps = block_steps(x.sizes, parameters)
    if steps is None or not parameters:
        return None
    units = [each.unit * packed_strides(x.sizes)[each.axis] for each in steps]
    blocks = []
    for desc in parameters:
        strides = in_steps(desc, steps, x.sizes).effective_strides
        along = [_Stride(each.number, unit, stride) for each, unit, stride in zip(steps, units, strides, strict=True)]
        down = _regular([each for each in along if each.unit >= columns])
        across = _regular([each for each in along if each.unit < columns])
        if down is None or across is None or math.prod(each.number for each in along if each.unit < columns) != columns:
            return None
        blocks.append((down[0], across[0], down[1], across[1]))
    return cpu_steps.BlockGemm(
        transposes_a=gemm.trans_a is MatrixTransform.TRANSPOSE,
        transposes_b=is_transposed,
        has_four_bits=x.dtype.bits == 4,
        is_signed=x.dtype.is_signed,
        sizes=(rows, columns),
        scale=blocks[0],
        zero_point=blocks[-1],
    )


class _Stride(NamedTuple):
    """A number of steps of `unit` weights; each goes `stride` numbers further in a parameter."""

    number: int
    unit: int
    stride: int


def _regular(steps: list[_Stride]) -> tuple[int, int] | None:
    """How many rows or columns share a number, and the step to the next one; None if it is not always the same."""
    steps = [each for each in steps if each.number > 1]
    block = 1
    while steps and steps[-1].stride == 0:
        block *= steps.pop().number
    step = steps[-1].stride if steps else 0
    following = step
    for each in reversed(steps):
        if each.stride != following:
            return None
        following *= each.number
    return block, step
