"""Single precision: what the operators that run in NumPy's BLAS share.

The reference adds in float64; these operators add in float32.  With u = 2^−24 and n terms, the error of a sum is at
most (n + 3) · u times the sum of the terms' magnitudes, plus n · 2^−149 where terms underflow; the sum is rounded once
to the output's type.  A float32 sum may overflow where the float64 sum does not, even if the result is small.  So a
result that is not finite raises `UnfitError` and is left to the reference: NaN and infinity are the reference's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from dmlgraph.operators.activation import (
    ActivationIdentity,
    ActivationLeakyRelu,
    ActivationRelu,
    ActivationSigmoid,
    ActivationTanh,
)
from dmlgraph.operators.declaration.operator import Array, Operator
from dmlgraph.tensor import DataType

from .blas import multiply

Evaluate = Callable[..., tuple[Array, ...]]  # (operator, arrays…): the contract of Operator.evaluate


class UnfitError(Exception):
    """Float32, or the method used here, does not fit this case: the reference computes it."""


def or_reference(function: Evaluate) -> Evaluate:
    """The function, replaced by the operator's `evaluate` when it raises UnfitError."""

    @functools.wraps(function)
    def run(operator: Operator, *inputs: Array | None) -> tuple[Array, ...]:
        try:
            with np.errstate(all="ignore"):
                return function(operator, *inputs)
        except UnfitError:
            return operator.evaluate(*inputs)

    return run


def finite(x: Array) -> Array:
    """Returns x; raises UnfitError if an element is not finite."""
    if not np.isfinite(x).all():
        raise UnfitError
    return x


def single(x: Array) -> Array:
    """x in float32; x itself if it is float32 already."""
    return x.astype(np.float32, copy=False)


def product(a: Array, b: Array) -> Array:
    """a · b, {…, M, K} times {…, K, N}, in a new array of their float type, float32 for float16.

    BLAS takes matrices whose rows or columns are packed; others are copied first.  If b is the same for every batch,
    all batches are one product.
    """
    if a.shape[:-2] == b.shape[:-2]:  # repeated batches of b are converted, packed and multiplied by once
        repeated = (stride == 0 or size == 1 for size, stride in zip(b.shape[:-2], b.strides, strict=False))
        b = b[tuple(slice(0, 1) if each else slice(None) for each in repeated)]
    a, b = (_packed(_floats(each)) for each in (a, b))
    if a.ndim > 2 and b[..., 0, 0].size == 1 and a.flags.c_contiguous:
        rows = multiply(a.reshape(-1, a.shape[-1]), b.reshape(b.shape[-2:]))
        return rows.reshape(*a.shape[:-1], b.shape[-1])
    return multiply(a, b)


def _floats(x: Array) -> Array:
    return x if x.dtype == np.float64 else single(x)


def _packed(x: Array) -> Array:
    """The array itself if BLAS accepts the strides of its matrices, else a packed copy."""
    for (size, stride), outer in (
        (last := (x.shape[-1], x.strides[-1]), x.strides[-2]),
        ((x.shape[-2], x.strides[-2]), last[1]),
    ):
        if stride == x.itemsize and outer >= size * x.itemsize:
            return x
    return np.ascontiguousarray(x)


def activated(activation: Operator | None, x: Array, dtype: DataType) -> Array:
    """The activation of x, which is overwritten; in float32, within 4 units in the last place.

    `dtype` is the data type of the tensor that the result is for.
    """
    if activation is None:
        return x
    function = _ACTIVATIONS.get(type(activation))
    return single(activation.apply_fused(x, dtype)) if function is None else function(activation, x)


def _sigmoid(_: Any, x: Array) -> Array:
    x *= np.float32(-1)  # np.negative of NumPy 2.4.6 gives wrong results in place where elements are not adjacent
    np.exp(x, out=x)
    x += 1
    return np.reciprocal(x, out=x)


def _leaky_relu(activation: Any, x: Array) -> Array:
    return np.where(x >= 0, x, x * np.float32(activation.alpha))


# The most frequent activations, without the reference's conversion to float64.
_ACTIVATIONS: dict[type[Operator], Callable[[Any, Array], Array]] = {
    ActivationIdentity: lambda _, x: x,
    ActivationRelu: lambda _, x: np.fmax(x, np.float32(0), out=x),
    ActivationLeakyRelu: _leaky_relu,
    ActivationSigmoid: _sigmoid,
    ActivationTanh: lambda _, x: np.tanh(x, out=x),
}
