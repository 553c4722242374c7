"""Linear resampling as matrix products: along a dimension, each output element is a weighted sum of few input elements.

While the dimension is short, a matrix of mostly zeros costs less than gathering.  Zero times infinity is NaN, so inputs
that are not finite are left to the reference.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dmlgraph.operators.common.numerics import convert
from dmlgraph.operators.declaration.operator import Array
from dmlgraph.operators.resampling import Taps

from .blas import multiply
from .single import UnfitError, finite, product, single

_LONGEST = 512  # a dense matrix pays for up to so many elements along a dimension


def resample(operator: Any, x: Array) -> tuple[Array, ...]:
    along = list(operator.taps(x.shape, operator.output.sizes))
    # Integers are truncated, so the smallest error would show.  Elements that are only copied have no weights.
    weighed = [taps for _, taps in along if taps.weights.shape[1] > 1]
    if not operator.output.dtype.is_float or not weighed or max(x.shape[axis] for axis, _ in along) > _LONGEST:
        raise UnfitError
    result = single(x)
    for axis, taps in along:
        if taps.weights.shape[1] == 1:
            result = result.take(taps.indices[:, 0], axis)
        else:
            result = _multiplied(_dense(taps, result.shape[axis]), result, axis)
    return (convert(finite(result), operator.output.dtype),)


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
