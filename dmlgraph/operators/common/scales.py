"""Quantized tensors: an integer q stands for the number (q − zero_point) · scale.

Scales and zero points are tensors of one number, or of one per channel: {1, C, 1, …}.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.operators.common.numerics import Array


class Quantized(NamedTuple):
    """A quantized tensor's arrays.

    Attributes:
        steps: the integers.
        scale: the value of one step.
        zero_point: the integer that stands for 0; None means 0.
    """

    steps: Array
    scale: Array
    zero_point: Array | None


def of_quantized_pair(function: Callable[..., tuple[Array, ...]]) -> Callable[..., tuple[Array, ...]]:
    """Makes an `evaluate` whose inputs are a, a_scale, a_zero_point, b, b_scale, b_zero_point, and others.

    The decorated function takes the operator, the two quantized tensors, and the other inputs.
    """

    @functools.wraps(function)
    def evaluate(operator: Any, *inputs: Any) -> tuple[Array, ...]:
        return function(operator, Quantized(*inputs[:3]), Quantized(*inputs[3:6]), *inputs[6:])

    return evaluate


def as_channels(inputs: dict[str, Any], fields: Sequence[str]) -> dict[str, Any]:
    """The input descriptions; those of `fields` with one dimension become {1, C, 1, …} of the input's rank."""
    tensor = inputs.get("input")
    adapted = dict(inputs)
    for field in fields:
        desc = inputs.get(field)
        if tensor is not None and desc is not None and desc.rank == 1 < tensor.rank:
            sizes = (1, *desc.sizes, *(1,) * (tensor.rank - 2))
            strides = None if desc.strides is None else (0, *desc.strides, *(0,) * (tensor.rank - 2))
            adapted[field] = desc.like(sizes=sizes, strides=strides, owned=desc.owned)
    return adapted


def paired(inputs: dict[str, Any]) -> dict[str, Any]:
    """The input descriptions; of a scale and its zero point, one number is repeated where the other has several.

    DirectML takes no pair of other sizes (measured).
    """
    adapted = dict(inputs)
    for field, scale in inputs.items():
        point = f"{field.removesuffix('_scale')}_zero_point"
        zero = inputs.get(point) if field.endswith("_scale") else None
        if scale is None or zero is None or scale.rank != zero.rank:
            continue
        for name, desc, other in ((field, scale, zero), (point, zero, scale)):
            if desc.element_count == 1 < other.element_count:
                adapted[name] = desc.broadcast_to(other.sizes)
    return adapted


def with_rank(desc: TensorDesc, rank: int) -> TensorDesc:
    """The description with leading dimensions of size 1, up to `rank` in total."""
    missing = rank - desc.rank
    if missing <= 0:
        return desc
    strides = None if desc.strides is None else (0,) * missing + desc.strides
    return desc.like(sizes=(1,) * missing + desc.sizes, strides=strides, owned=desc.owned)


def along(parameter: Array | None, axis: int, rank: int) -> Array:
    """A scale or zero point in float32 that broadcasts along an axis of a tensor; an absent zero point is 0."""
    values = np.zeros(1, np.float32) if parameter is None else parameter.astype(np.float32)
    return values.reshape((-1,) + (1,) * (rank - axis - 1))


def centred(x: Array, zero_point: Array | None, axis: int = 1) -> Array:
    """x − zero_point, exact in float32."""
    return np.asarray(x.astype(np.float32) - along(zero_point, axis, x.ndim))


def quantize(steps: Array, zero_point: Array | None, dtype: DataType) -> Array:
    """clamp(round(steps) + zero_point), halves to even; the channels of `steps` are on axis 1."""
    return clamp_steps(steps, along(zero_point, 1, steps.ndim), dtype)


def clamp_steps(steps: Array, zero_point: Array, dtype: DataType) -> Array:
    """clamp(round(steps) + zero_point), halves to even, of arrays that broadcast; NaN gives the least number."""
    least, greatest = dtype.range
    numbers = np.rint(steps).astype(np.float64) + zero_point.astype(np.float64)
    return np.asarray(np.fmin(np.fmax(numbers, least), greatest).astype(dtype.numpy))
