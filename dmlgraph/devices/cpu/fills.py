"""What attributes alone determine: constants, diagonals, random bits, and the scale of images."""

from __future__ import annotations

import numpy as np

from dmlgraph._native import cpu_steps
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.devices.cpu.expressions import apply, choose
from dmlgraph.devices.cpu.lowering import Lowerings, lowers
from dmlgraph.devices.cpu.nodes import Fill, Lowered
from dmlgraph.devices.cpu.parts import Parts, Tensor
from dmlgraph.operators.common.numerics import cut
from dmlgraph.operators.diagonal import DiagonalMatrix, DiagonalMatrix1
from dmlgraph.operators.fill import FillValueConstant
from dmlgraph.operators.image import ValueScale2d
from dmlgraph.operators.random import RandomGenerator


def _fill(operator: FillValueConstant) -> Lowered | None:
    dtype = operator.output.dtype
    return None if dtype.bits == 4 else Fill(operator.value.union[: dtype.bits // 8])


def _diagonal(operator: DiagonalMatrix) -> Lowered | None:
    value = np.asarray(cut(operator.value, operator.output.dtype)).tobytes()
    return _diagonals(Parts(operator), operator.output, value, None, operator.offset, operator.offset + 1)


def _diagonals_of_input(operator: DiagonalMatrix1) -> Lowered | None:
    parts, output = Parts(operator), operator.output
    value = operator.value.union[: output.dtype.bits // 8]
    begin, end = operator.diagonal_fill_begin, operator.diagonal_fill_end
    return _diagonals(parts, output, value, parts.optional("input"), begin, end)


def _diagonals(
    parts: Parts, output: TensorDesc, value: bytes, rest: Tensor | None, begin: int, end: int
) -> Lowered | None:
    """The value where begin <= column − row < end, or outside these diagonals if the end is below the begin."""
    if output.dtype.bits == 4:
        return None
    rank = output.rank
    *_, rows, columns = output.sizes
    row, column = (parts.sequence((*(1,) * (rank - 2), *sizes)) for sizes in ((rows, 1), (1, columns)))
    low, high = (  # beyond the matrix is as far as just beside it
        parts.number(min(max(bound, -rows), columns) + rows, DataType.UINT32, rank) for bound in sorted((begin, end))
    )
    count = parts.number(rows, DataType.UINT32, rank)
    inside = parts.fill(value, output.dtype, rank)
    other = parts.number(0, output.dtype, rank) if rest is None else rest
    place = column + count
    is_filled = apply("LOGICAL_AND", (row + low).is_at_most(place), place.is_less(row + high))
    return parts.store(choose(is_filled, *((inside, other) if begin <= end else (other, inside))), output).finish()


def _value_scale(operator: ValueScale2d) -> Lowered | None:
    """The product and the sum are each rounded to the tensor's type."""
    parts = Parts(operator)
    x = parts.input("input")
    rank = x.desc.rank
    scale = parts.number(operator.scale, x.dtype, rank)
    bias = parts.constant(np.array(operator.bias).reshape(*(1,) * (rank - 3), -1, 1, 1), x.dtype)
    return parts.store(x * scale + bias, operator.output).finish()


def _random(operator: RandomGenerator) -> Lowered | None:
    """The bits, and the state that follows, which may be left out, by two steps."""
    parts = Parts(operator)
    state = parts.input("input_state")
    wanted = (operator.output, operator.output_state or state.desc.like())
    given, count = state.packed(), operator.output.element_count
    made = [
        parts.step(cpu_steps.Random(count=count, is_state=is_state), given, output=desc.like())
        for desc, is_state in zip(wanted, (False, True), strict=True)
    ]
    if any(desc.strides is not None for desc in wanted):
        for tensor, desc in zip(made, wanted, strict=True):
            tensor.copy(desc)
    return parts.finish()


FILLS: Lowerings = {
    **lowers(_fill, FillValueConstant),
    **lowers(_diagonal, DiagonalMatrix),
    **lowers(_diagonals_of_input, DiagonalMatrix1),
    **lowers(_random, RandomGenerator),
    **lowers(_value_scale, ValueScale2d),
}
