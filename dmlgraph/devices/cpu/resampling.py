"""Resampling as a native step, and its gradients as matrix products.

A gradient's matrix has mostly zeros; while the dimension is short, it costs less than scattering.  Zero times infinity
is NaN, so gradients that are not finite are left to the reference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dmlgraph.devices.cpu.element_wise import Code, Value
from dmlgraph.devices.cpu.parts import Part
from dmlgraph.operators.common.numerics import convert
from dmlgraph.operators.declaration.operator import Array, Operator
from dmlgraph.operators.resampling import Resample, Resample1, Resample2, Resample3, Taps, Upsample2d
from dmlgraph.tensor import DataType

from .blas import multiply
from .single import UnfitError, finite, product, single

_LONGEST = 512  # a dense matrix pays for up to so many elements along a dimension


def _resample(operator: Any) -> tuple[str, Any]:
    with np.errstate(all="ignore"):
        along = list(operator.taps(operator.input.sizes, operator.output.sizes))
        tables = [(taps.indices.T.ravel(), single(taps.weights.T.ravel())) for _, taps in along]
    code = Code()
    code.convert(Value(0, DataType.FLOAT32), operator.output.dtype)
    parameters = {
        "axes": tuple(axis for axis, _ in along),
        "taps": tuple(taps.indices.shape[1] for _, taps in along),
        "indices": tuple(int(each) for indices, _ in tables for each in indices),
        "weights": tuple(float(each) for _, weights in tables for each in weights),
    }
    payload = ("resampling", parameters, code.finish())
    return "parts", (Part("native", (0,), (operator.input,), operator.output, payload),)


RESAMPLINGS: Mapping[type[Operator], Callable[[Any], tuple[str, Any]]] = dict.fromkeys(
    (Resample, Resample1, Resample2, Resample3, Upsample2d), _resample
)


def resample_gradient(operator: Any, gradient: Array) -> tuple[Array, ...]:
    sizes = operator.output_gradient.sizes
    along = list(operator.taps(sizes, gradient.shape))
    if max((sizes[axis] for axis, _ in along), default=0) > _LONGEST:
        raise UnfitError
    result = single(gradient)
    for axis, taps in along:
        result = _multiplied(_dense(taps, sizes[axis]).T, result, axis)
    return (convert(finite(result), operator.output_gradient.dtype),)


def _dense(taps: Taps, size: int) -> Array:
    """{outputs, inputs}: the weight of each input element in each output element."""
    matrix = np.zeros((len(taps.indices), size), np.float64)
    np.add.at(matrix, (np.arange(len(taps.indices))[:, None], taps.indices), taps.weights)
    return single(matrix)


def _multiplied(matrix: Array, x: Array, axis: int) -> Array:
    """The product of the matrix and x along an axis."""
    shape = (*x.shape[:axis], len(matrix), *x.shape[axis + 1 :])
    if axis == x.ndim - 1:
        return product(x.reshape(-1, x.shape[-1]), matrix.T).reshape(shape)
    planes = x.reshape(-1, x.shape[axis], math.prod(x.shape[axis + 1 :]))
    return multiply(matrix, planes).reshape(shape)
