"""Functions as DirectML's shaders compute them: by powers and logarithms of base 2, every step rounded.

Each function works in the type of its array, and rounds every step to it.  DirectML computes those of a float16 tensor
in float32, and rounds the result.  The formulas are those of the shaders of DirectML 1.13.
"""

from __future__ import annotations

import math

import numpy as np

from dmlgraph.operators.common.numerics import Array

LOG2_E = 1 / math.log(2)
LN_2 = math.log(2)

_ERF_BEND = 0.3275911
_ERF_FACTORS = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)  # Abramowitz and Stegun, 7.1.26


def exp2(x: Array) -> Array:
    """2^x.  A float16 result is rounded from a float32 one, as processors and drivers do."""
    return np.exp2(x.astype(np.float64)).astype(np.float32).astype(x.dtype)


def log2(x: Array) -> Array:
    """log2 x, rounded as in `exp2`."""
    return np.log2(x.astype(np.float64)).astype(np.float32).astype(x.dtype)


def exp(x: Array) -> Array:
    """e^x."""
    return exp2(x * x.dtype.type(LOG2_E))


def log(x: Array, factor: float = 1.0) -> Array:
    """factor · ln x; the factor and ln 2 are one constant."""
    return np.asarray(log2(x) * (x.dtype.type(factor) * x.dtype.type(LN_2)))


def erf(x: Array) -> Array:
    """The error function, within 5e-7; 0.0 for both zeros."""
    kind = x.dtype.type
    magnitude = np.abs(x)
    t = kind(1) / (magnitude * kind(_ERF_BEND) + kind(1))
    total = kind(_ERF_FACTORS[0])
    for factor in _ERF_FACTORS[1:]:
        total = total * t + kind(factor)
    rest = exp2(magnitude * magnitude * kind(-LOG2_E)) * t * total
    sign = (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype)
    return np.asarray((kind(1) - rest) * sign)
