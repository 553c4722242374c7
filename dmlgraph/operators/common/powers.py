"""Powers as DirectML computes them: by logarithms, but integers by squaring."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dmlgraph.base.tensor import DataType
from dmlgraph.operators.common import shader
from dmlgraph.operators.common.numerics import FLOAT16_MAX, Array, convert


def power(
    base: Array,
    exponent: Array,
    exp2: Callable[[Array], Array] = np.exp2,
    log2: Callable[[Array], Array] = np.log2,
) -> Array:
    """base ^ exponent as a shader computes it, in the type of its arrays; infinite exponents are not whole."""
    magnitude = exp2(exponent * log2(np.abs(base)))
    whole = (np.trunc(exponent) == exponent) & np.isfinite(exponent)
    odd = whole & (np.fmod(exponent, 2) != 0)
    return np.where(base < 0, np.where(whole, np.where(odd, -magnitude, magnitude), np.nan), magnitude)


def half_power(base: Array, exponent: Array) -> Array:
    """base ^ exponent of float16 tensors, given in float32 (measured): infinite beyond 65504, even slightly."""
    result = power(base, exponent, shader.exp2, shader.log2)
    return np.where(np.abs(result) > FLOAT16_MAX, np.copysign(np.float32(np.inf), result), result)


def integer_power(base: Array, exponent: Array) -> Array:
    """base ^ exponent modulo 2^32 by squaring; negative exponents give truncated fractions, 0 the greatest number."""
    wide = np.uint32 if base.dtype.kind == "u" else np.int32
    square: Array = base.astype(wide)
    result = np.ones(base.shape, wide)
    remaining = np.where(exponent < 0, 0, exponent).astype(np.uint64)
    while remaining.any():
        result = np.where(remaining & np.uint64(1) != 0, result * square, result)
        square = square * square
        remaining = remaining >> np.uint64(1)
    if exponent.dtype.kind == "u":
        return result
    inverse = convert(power(base.astype(np.float64), exponent.astype(np.float64)), DataType.parse(base.dtype))
    return np.where(exponent < 0, inverse.astype(wide), result)
