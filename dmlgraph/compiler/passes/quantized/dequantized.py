"""What rules need to know of dequantized operands: their integers, scales and zero points."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dmlgraph import operators as ops
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.ir_node import IrNode, Operand, Source
from dmlgraph.compiler.rule import alone, demand, wanted
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.view import with_strides

Array = np.ndarray[Any, Any]

# Scales in this range are used: products and quotients of three of them, times sums of 32 bits, stay within float32.
LEAST_SCALE, GREATEST_SCALE = 2.0**-40, 2.0**40
FURTHEST = 255  # an integer of 8 bits from its zero point
GREATEST_SUM = 2**31 - 1  # of products, which quantized operators add up as int32


class Dequantized(NamedTuple):
    """A tensor that DEQUANTIZE_LINEAR computes: its inputs, read as the tensor is read.

    Attributes:
        steps: the integers.
        scale: of the same sizes, through strides of zero.
        zero_point: likewise; None: 0.
    """

    steps: Operand
    scale: Operand
    zero_point: Operand | None


class Parameter(NamedTuple):
    """A scale or zero point: the operand of an operator, and its numbers."""

    operand: Operand
    numbers: Array


def dequantized(ir: IrGraph, operand: Operand | None) -> Dequantized | None:
    """The inputs of the DEQUANTIZE_LINEAR that makes an operand; None if another node makes it."""
    node = None if operand is None else ir.producer(operand)
    if operand is None or node is None or not isinstance(node.operator, ops.DequantizeLinear):
        return None
    produced = ir.produced(operand)
    zero = node.operand("zero_point")
    steps, scale = (ir.around(operand, produced, node.needed(field)) for field in ("input", "scale"))
    zero_read = None if zero is None else ir.around(operand, produced, zero)
    if steps is None or scale is None or (zero is not None and zero_read is None):
        return None
    return Dequantized(steps, scale, zero_read)


def result_of(ir: IrGraph, node: IrNode, *operators: type[Operator]) -> IrNode | None:
    """The node of these operators whose result a QUANTIZE_LINEAR reads whole, as it was written; else None.

    Raises:
        Declined: its outputs have other readers, and it would be computed twice.
    """
    read = node.needed("input")
    made = ir.producer(read)
    if made.kind not in operators or read.desc != ir.produced(read):
        return None
    alone(ir, read, "and would be computed twice")
    others = (Source(made.name, port) for port in range(made.output_count) if port != read.source.port)
    demand(not any(map(ir.use_count, others)), f"other outputs of '{made.name}' are read")
    return made


def along(operand: Operand, axis: int | None, place: int, rank: int) -> Operand:
    """A broadcast scale or zero point without the repetition: one number, or one for each index of an axis.

    The numbers are along the dimension `place` of {1, …}, of `rank` dimensions; with `axis` None there is one.

    Raises:
        Declined: it has numbers along other axes.
    """
    sizes, strides = operand.desc.sizes, operand.desc.effective_strides
    moving = [at for at, (size, stride) in enumerate(zip(sizes, strides, strict=True)) if size > 1 and stride]
    is_along = moving in ([], [None if axis is None else axis % len(sizes)])
    demand(is_along, f"'{operand.source.node}' has numbers along other axes")
    new_sizes, new_strides = [1] * rank, [0] * rank
    for at in moving:
        new_sizes[place], new_strides[place] = sizes[at], strides[at]
    desc = TensorDesc(dtype=operand.desc.dtype, sizes=tuple(new_sizes), owned=operand.desc.owned)
    return Operand(operand.source, with_strides(desc, tuple(new_strides)))


def scale_of(ir: IrGraph, operand: Operand, axis: int | None, place: int, rank: int) -> Parameter:
    """A scale, as by `along`, and its numbers.

    Raises:
        Declined: they are not known, or so extreme that intermediate values would overflow.
    """
    found = along(operand, axis, place, rank)
    numbers = wanted(ir.values(found), f"the scale '{operand.source.node}' is not a constant")
    is_usual = ((numbers >= LEAST_SCALE) & (numbers <= GREATEST_SCALE)).all()
    demand(is_usual, f"the scale '{operand.source.node}' is extreme")
    return Parameter(found, numbers)


def zero_of(operand: Operand | None, axis: int | None, place: int, rank: int) -> Operand | None:
    """A zero point, as by `along`."""
    return None if operand is None else along(operand, axis, place, rank)


def number_of(ir: IrGraph, operand: Operand | None) -> float | None:
    """The number of a scale or zero point that is the same everywhere; 0 for an absent one, None if it is unknown."""
    if operand is None:
        return 0.0
    number = ir.number(operand)
    return None if number is None else float(number.value)


def same_parameters(ir: IrGraph, node: IrNode, tensor: Dequantized) -> bool:
    """Whether a QUANTIZE_LINEAR gives back the integers of 8 bits that its dequantized input was made of.

    (q − zero_point) · scale / scale is rounded twice, and so within a thousandth of the integer: the scale is in the
    usual range.
    """
    dtype = node.output_desc().dtype
    if tensor.steps.desc.dtype is not dtype or dtype.bits != 8:
        return False
    if tensor.scale.desc.dtype is not DataType.FLOAT32:
        return False
    scales, zeros = (
        {number_of(ir, each) for each in pair}
        for pair in ((node.operand("scale"), tensor.scale), (node.operand("zero_point"), tensor.zero_point))
    )
    if len(scales) > 1 or len(zeros) > 1 or None in scales | zeros:
        return False
    return all(LEAST_SCALE <= each <= GREATEST_SCALE for each in scales if each is not None)
