"""What attributes alone determine: constants, diagonals, random bits, and the scale of images."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.devices.cpu.element_wise import Code
from dmlgraph.devices.cpu.parts import Parts, Tensor, operands
from dmlgraph.operators.common.numerics import cut
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.diagonal import DiagonalMatrix, DiagonalMatrix1
from dmlgraph.operators.fill import FillValueConstant
from dmlgraph.operators.image import ValueScale2d
from dmlgraph.operators.random import RandomGenerator

Payload = tuple[str, Any]


def _fill(operator: FillValueConstant) -> Payload | None:
    dtype = operator.output.dtype
    return None if dtype.bits == 4 else ("fill", operator.value.union[: dtype.bits // 8])


def _diagonal(operator: DiagonalMatrix) -> Payload | None:
    value = np.asarray(cut(operator.value, operator.output.dtype)).tobytes()
    return _diagonals(operator.output, value, None, operator.offset, operator.offset + 1)


def _diagonals_of_input(operator: DiagonalMatrix1) -> Payload | None:
    output = operator.output
    if output.dtype.bits == 4:
        return None
    value = operator.value.union[: output.dtype.bits // 8]
    return _diagonals(output, value, operator.input, operator.diagonal_fill_begin, operator.diagonal_fill_end)


def _diagonals(output: TensorDesc, value: bytes, rest: TensorDesc | None, begin: int, end: int) -> Payload | None:
    """The value where begin <= column − row < end, or outside these diagonals if the end is below the begin."""
    if output.dtype.bits == 4:
        return None
    parts, rank = Parts(), output.rank
    *_, rows, columns = output.sizes
    row, column = (parts.sequence((*(1,) * (rank - 2), *sizes)) for sizes in ((rows, 1), (1, columns)))
    bounds = [  # beyond the matrix is as far as just beside it
        parts.number(min(max(bound, -rows), columns) + rows, DataType.UINT32, rank) for bound in sorted((begin, end))
    ]
    size = parts.number(rows, DataType.UINT32, rank)
    given = [row, column, *bounds, size, parts.element_of(value, output.dtype, rank)]
    given.append(parts.zero(output.dtype, rank) if rest is None else Tensor(0, rest))
    code = Code()
    r, c, low, high, count, inside, other = operands(*given)
    place = code.add("ADD", c, count)
    first, last = (code.add("ADD", r, bound) for bound in (low, high))
    is_filled = code.add(
        "LOGICAL_AND",
        code.add("LESS_OR_EQUAL", first, place, result=DataType.UINT8),
        code.add("LESS", place, last, result=DataType.UINT8),
    )
    code.add("IF", is_filled, *((inside, other) if begin <= end else (other, inside)))
    parts.compute(code, *given, output=output)
    return parts.finish()


def _value_scale(operator: ValueScale2d) -> Payload | None:
    """The product and the sum are each rounded to the tensor's type."""
    parts, x = Parts(), Tensor(0, operator.input)
    dtype, rank = x.desc.dtype, x.desc.rank
    bias = np.array(operator.bias).reshape(*(1,) * (rank - 3), -1, 1, 1)
    given = (x, parts.number(operator.scale, dtype, rank), parts.constant(bias, dtype))
    code = Code()
    number, scale, addend = operands(*given)
    code.add("ADD", code.add("MULTIPLY", number, scale), addend)
    parts.compute(code, *given, output=operator.output)
    return parts.finish()


def _random(operator: RandomGenerator) -> Payload | None:
    """The bits, and the state that follows, which may be left out, by two steps."""
    parts, state = Parts(), Tensor(0, operator.input_state)
    wanted = (operator.output, operator.output_state or state.desc.like())
    given, count = parts.packed(state), operator.output.element_count
    made = [
        parts.step("random", {"count": count, "is_state": is_state}, given, output=desc.like())
        for desc, is_state in zip(wanted, (False, True), strict=True)
    ]
    if any(desc.strides is not None for desc in wanted):
        for tensor, desc in zip(made, wanted, strict=True):
            parts.copy(tensor, desc)
    return parts.finish()


FILLS: Mapping[type[Operator], Callable[[Any], Payload | None]] = {
    FillValueConstant: _fill,
    DiagonalMatrix: _diagonal,
    DiagonalMatrix1: _diagonals_of_input,
    RandomGenerator: _random,
    ValueScale2d: _value_scale,
}
