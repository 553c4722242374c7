"""Gather, scatter, reversed sequences, the first elements in order and those that are not zero; one-hot tensors."""

from __future__ import annotations

import math

from dmlgraph._native import cpu_steps
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.devices.cpu.expressions import Expression, choose
from dmlgraph.devices.cpu.lowering import Lowerings, lowers
from dmlgraph.devices.cpu.nodes import Lowered, Native
from dmlgraph.devices.cpu.parts import Parts, packed_step
from dmlgraph.operators.directml_enums import AxisDirection
from dmlgraph.operators.indexing import (
    Gather,
    GatherElements,
    GatherNd,
    GatherNd1,
    GatherTuples,
    NonzeroCoordinates,
    OneHot,
    ScatterElements,
    ScatterNd,
)
from dmlgraph.operators.selection import Top, TopK, TopK1
from dmlgraph.operators.shape import ReverseSubsequences


def _around(desc: TensorDesc, axis: int) -> tuple[int, int]:
    """The products of the sizes before and after an axis."""
    return math.prod(desc.sizes[:axis]), math.prod(desc.sizes[axis + 1 :])


def _gather(operator: Gather) -> Lowered | None:
    before, behind = _around(operator.input, operator.axis)
    step = cpu_steps.Gather(
        batches=before,
        tuples=math.prod(operator.indices.sizes),
        slice=behind,
        is_shared=True,
        sizes=(operator.input.sizes[operator.axis],),
    )
    return packed_step(operator, step)


def _gather_tuples(operator: GatherTuples) -> Lowered | None:
    source, indices, batch_dimensions = operator.shapes()
    members = indices[-1]
    step = cpu_steps.Gather(
        batches=math.prod(source[:batch_dimensions]),
        tuples=math.prod(indices[batch_dimensions:-1]),
        slice=math.prod(source[batch_dimensions + members :]),
        is_shared=False,
        sizes=source[batch_dimensions : batch_dimensions + members],
    )
    return packed_step(operator, step)


def _scatter_tuples(operator: ScatterNd) -> Lowered | None:
    source, indices, _ = operator.shapes()
    members = indices[-1]
    tuples, slice_ = math.prod(indices[:-1]), math.prod(source[members:])
    return packed_step(operator, cpu_steps.Scatter(tuples=tuples, slice=slice_, sizes=source[:members]))


def _gather_elements(operator: GatherElements) -> Lowered | None:
    outer, inner = _around(operator.input, operator.axis)
    size, taken = operator.input.sizes[operator.axis], operator.indices.sizes[operator.axis]
    return packed_step(operator, cpu_steps.GatherElements(outer=outer, inner=inner, size=size, taken=taken))


def _scatter_elements(operator: ScatterElements) -> Lowered | None:
    outer, inner = _around(operator.input, operator.axis)
    size, given = operator.input.sizes[operator.axis], operator.indices.sizes[operator.axis]
    return packed_step(operator, cpu_steps.ScatterElements(outer=outer, inner=inner, size=size, given=given))


def _one_hot(operator: OneHot) -> Lowered | None:
    output, axis = operator.output, operator.axis
    if output.dtype.bits <= 4:
        return None
    rank, depth = output.rank, output.sizes[axis]
    parts = Parts(operator)
    places = parts.sequence(tuple(depth if each == axis else 1 for each in range(rank)))
    values = parts.input("values")
    off, on = (values.element((*(0,) * (values.desc.rank - 1), place), rank) for place in (0, 1))
    index: Expression = parts.input("indices")
    if index.dtype.is_signed:
        zero, size = (parts.number(number, DataType.INT64, rank) for number in (0, depth))
        index = index.convert(DataType.INT64)
        index = choose(index.is_less(zero), index + size, index)
    return parts.store(choose(index.equals(places.convert(index.dtype)), on, off), output).finish()


def _top(operator: Top) -> Lowered | None:
    if operator.input.dtype.bits <= 4 or operator.input.dtype is DataType.FLOAT64:
        return None
    descending = operator.axis_direction is AxisDirection.DECREASING
    return Native(cpu_steps.Top(axis=operator.axis, count=operator.k, descending=descending))


def _nonzero(operator: NonzeroCoordinates) -> Lowered | None:
    """The coordinates by a step, and how many there are by a sum."""
    parts, coordinates, one = Parts(operator), operator.output_coordinates, operator.output_count
    x = parts.input("input")
    rank = x.desc.rank
    is_zero = x.equals(parts.number(0, x.dtype, rank))
    found = parts.store(is_zero.apply("LOGICAL_NOT").convert(DataType.UINT32))
    count = found.sum(tuple(range(rank)), DataType.UINT32).as_desc(one.like())
    packed, step = x.packed(), cpu_steps.Nonzero(members=coordinates.sizes[-1])
    if coordinates.strides is None:
        count.copy(one)
        parts.step(step, packed, output=coordinates)
    else:
        made = parts.step(step, packed, output=coordinates.like())
        count.copy(one)
        made.copy(coordinates)
    return parts.finish()


def _reverse(operator: ReverseSubsequences) -> Lowered | None:
    outer, inner = _around(operator.input, operator.axis)
    step = cpu_steps.Reversal(outer=outer, size=operator.input.sizes[operator.axis], inner=inner)
    return packed_step(operator, step)


INDEXING: Lowerings = {
    **lowers(_gather, Gather),
    **lowers(_gather_elements, GatherElements),
    **lowers(_gather_tuples, GatherNd, GatherNd1),
    **lowers(_nonzero, NonzeroCoordinates),
    **lowers(_one_hot, OneHot),
    **lowers(_reverse, ReverseSubsequences),
    **lowers(_scatter_elements, ScatterElements),
    **lowers(_scatter_tuples, ScatterNd),
    **lowers(_top, TopK, TopK1),
}
