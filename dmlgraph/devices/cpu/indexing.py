"""Gather and scatter as native steps of packed tensors; tensors with strides are left to `evaluate`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.indexing import (
    Gather,
    GatherElements,
    GatherNd,
    GatherNd1,
    GatherTuples,
    ScatterElements,
    ScatterNd,
)
from dmlgraph.tensor import TensorDesc

Payload = tuple[str, Any]


def _native(step: str, operator: Operator, integers: tuple[int, ...]) -> Payload | None:
    """The step, if every tensor is packed and no element shares its byte with another."""
    descs = (*operator.input_descs, *operator.output_descs)
    packed = all(desc is not None and desc.strides is None and desc.dtype.bits > 4 for desc in descs)
    return ("native", (step, integers, ())) if packed else None


def _around(desc: TensorDesc, axis: int) -> tuple[int, int]:
    """How many elements there are before and behind an axis."""
    return math.prod(desc.sizes[:axis]), math.prod(desc.sizes[axis + 1 :])


def _gather(operator: Gather) -> Payload | None:
    before, behind = _around(operator.input, operator.axis)
    tuples = math.prod(operator.indices.sizes)
    return _native("gather", operator, (before, tuples, behind, True, operator.input.sizes[operator.axis]))


def _gather_tuples(operator: GatherTuples) -> Payload | None:
    source, indices, batch_dimensions = operator.shapes()
    batches, members = math.prod(source[:batch_dimensions]), indices[-1]
    indexed = source[batch_dimensions : batch_dimensions + members]
    tuples = math.prod(indices[batch_dimensions:-1])
    slice_ = math.prod(source[batch_dimensions + members :])
    return _native("gather", operator, (batches, tuples, slice_, False, *indexed))


def _scatter_tuples(operator: ScatterNd) -> Payload | None:
    source, indices, _ = operator.shapes()
    members = indices[-1]
    tuples, slice_ = math.prod(indices[:-1]), math.prod(source[members:])
    return _native("scatter", operator, (tuples, slice_, *source[:members]))


def _elements(step: str) -> Callable[[Any], Payload | None]:
    def payload(operator: GatherElements | ScatterElements) -> Payload | None:
        axis = operator.axis
        sizes = operator.input.sizes[axis], operator.indices.sizes[axis]
        return _native(step, operator, (*_around(operator.input, axis), *sizes))

    return payload


INDEXING: Mapping[type[Operator], Callable[[Any], Payload | None]] = {
    Gather: _gather,
    GatherElements: _elements("gather_elements"),
    GatherNd: _gather_tuples,
    GatherNd1: _gather_tuples,
    ScatterElements: _elements("scatter_elements"),
    ScatterNd: _scatter_tuples,
}
