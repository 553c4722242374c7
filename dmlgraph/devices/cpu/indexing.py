"""Gather, scatter, reversed sequences, the first elements in order and those that are not zero; one-hot tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.devices.cpu.element_wise import Code
from dmlgraph.devices.cpu.parts import Parts, Tensor, operands, packed_step
from dmlgraph.operators.declaration.operator import Operator
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
from dmlgraph.operators.selection import TopK, TopK1
from dmlgraph.operators.shape import ReverseSubsequences

Payload = tuple[str, Any]


def _native(step: str, operator: Operator, **parameters: int | tuple[int, ...]) -> Payload | None:
    """The step; its parameters are those of its struct in native/cpu/steps/indexed.h."""
    return packed_step(step, operator, parameters)


def _around(desc: TensorDesc, axis: int) -> tuple[int, int]:
    """The products of the sizes before and after an axis."""
    return math.prod(desc.sizes[:axis]), math.prod(desc.sizes[axis + 1 :])


def _gather(operator: Gather) -> Payload | None:
    before, behind = _around(operator.input, operator.axis)
    tuples = math.prod(operator.indices.sizes)
    sizes = (operator.input.sizes[operator.axis],)
    return _native("gather", operator, batches=before, tuples=tuples, slice=behind, is_shared=True, sizes=sizes)


def _gather_tuples(operator: GatherTuples) -> Payload | None:
    source, indices, batch_dimensions = operator.shapes()
    batches, members = math.prod(source[:batch_dimensions]), indices[-1]
    indexed = tuple(source[batch_dimensions : batch_dimensions + members])
    tuples = math.prod(indices[batch_dimensions:-1])
    slice_ = math.prod(source[batch_dimensions + members :])
    return _native("gather", operator, batches=batches, tuples=tuples, slice=slice_, is_shared=False, sizes=indexed)


def _scatter_tuples(operator: ScatterNd) -> Payload | None:
    source, indices, _ = operator.shapes()
    members = indices[-1]
    tuples, slice_ = math.prod(indices[:-1]), math.prod(source[members:])
    return _native("scatter", operator, tuples=tuples, slice=slice_, sizes=tuple(source[:members]))


def _gather_elements(operator: GatherElements) -> Payload | None:
    outer, inner = _around(operator.input, operator.axis)
    size, taken = operator.input.sizes[operator.axis], operator.indices.sizes[operator.axis]
    return _native("gather_elements", operator, outer=outer, inner=inner, size=size, taken=taken)


def _scatter_elements(operator: ScatterElements) -> Payload | None:
    outer, inner = _around(operator.input, operator.axis)
    size, given = operator.input.sizes[operator.axis], operator.indices.sizes[operator.axis]
    return _native("scatter_elements", operator, outer=outer, inner=inner, size=size, given=given)


def _one_hot(operator: OneHot) -> Payload | None:
    output, values, axis = operator.output, operator.values, operator.axis
    if output.dtype.bits <= 4:
        return None
    rank, depth = output.rank, output.sizes[axis]
    parts, code = Parts(), Code()
    places = parts.sequence(tuple(depth if each == axis else 1 for each in range(rank)))
    off, on = (parts.element(Tensor(1, values), (*(0,) * (values.rank - 1), index), rank) for index in (0, 1))
    tensors = [Tensor(0, operator.indices), places, off, on]
    index, place, *_ = given = operands(*tensors)
    if operator.indices.dtype.is_signed:
        tensors += [parts.number(number, DataType.INT64, rank) for number in (0, depth)]
        zero, size = operands(*tensors)[len(given) :]
        index = code.convert(index, DataType.INT64)
        index = code.add(
            "IF", code.add("LESS", index, zero, result=DataType.UINT8), code.add("ADD", index, size), index
        )
    is_there = code.add("EQUAL", index, code.convert(place, index.dtype), result=DataType.UINT8)
    code.add("IF", is_there, given[3], given[2])
    parts.compute(code, *tensors, output=output)
    return parts.finish()


def _top(operator: TopK | TopK1) -> Payload | None:
    descending = operator.axis_direction is AxisDirection.DECREASING
    if operator.input.dtype.bits <= 4 or operator.input.dtype is DataType.FLOAT64:
        return None
    return "native", ("top", {"axis": operator.axis, "count": operator.k, "descending": descending})


def _nonzero(operator: NonzeroCoordinates) -> Payload | None:
    """The coordinates by a step, and how many there are by a sum."""
    parts, coordinates = Parts(), operator.output_coordinates
    x = Tensor(0, operator.input)
    rank = x.desc.rank
    given = (x, parts.zero(x.desc.dtype, rank))
    code = Code()
    is_zero = code.add("EQUAL", *operands(*given), result=DataType.UINT8)
    code.convert(code.add("LOGICAL_NOT", is_zero), DataType.UINT32)
    found = parts.compute(code, *given, output=TensorDesc(dtype=DataType.UINT32, sizes=x.desc.sizes))
    count = parts.reduce("SUM", found, tuple(range(rank)), DataType.UINT32)
    one = operator.output_count
    packed = parts.packed(x)
    if coordinates.strides is None:
        parts.copy(count._replace(desc=one.like()), one)
        parts.step("nonzero", {"members": coordinates.sizes[-1]}, packed, output=coordinates)
    else:
        made = parts.step("nonzero", {"members": coordinates.sizes[-1]}, packed, output=coordinates.like())
        parts.copy(count._replace(desc=one.like()), one)
        parts.copy(made, coordinates)
    return parts.finish()


def _reverse(operator: ReverseSubsequences) -> Payload | None:
    outer, inner = _around(operator.input, operator.axis)
    return _native("reversal", operator, outer=outer, size=operator.input.sizes[operator.axis], inner=inner)


INDEXING: Mapping[type[Operator], Callable[[Any], Payload | None]] = {
    Gather: _gather,
    GatherElements: _gather_elements,
    GatherNd: _gather_tuples,
    GatherNd1: _gather_tuples,
    NonzeroCoordinates: _nonzero,
    OneHot: _one_hot,
    ReverseSubsequences: _reverse,
    ScatterElements: _scatter_elements,
    ScatterNd: _scatter_tuples,
    TopK: _top,
    TopK1: _top,
}
