"""Gather and scatter of packed tensors as native steps; `evaluate` runs for tensors with strides."""

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


def _native(step: str, operator: Operator, **parameters: int | tuple[int, ...]) -> Payload | None:
    """The step; None unless every tensor is packed and has elements of whole bytes.

    The parameters are those of the step's struct in native/cpu/steps/indexed.h.
    """
    descs = (*operator.input_descs, *operator.output_descs)
    packed = all(desc is not None and desc.strides is None and desc.dtype.bits > 4 for desc in descs)
    return ("native", (step, parameters)) if packed else None


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


INDEXING: Mapping[type[Operator], Callable[[Any], Payload | None]] = {
    Gather: _gather,
    GatherElements: _gather_elements,
    GatherNd: _gather_tuples,
    GatherNd1: _gather_tuples,
    ScatterElements: _scatter_elements,
    ScatterNd: _scatter_tuples,
}
