"""The number rules that all operators share when they are evaluated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dmlgraph.tensor import DataType

Array = np.ndarray[Any, Any]


def working(array: Array) -> Array:
    """The array in the type it is computed in: float16 in float32, every other type in itself."""
    return array.astype(np.float32) if array.dtype == np.float16 else array


def accurately(function: Callable[[Array], Array], x: Array) -> Array:
    """A float function computed in float64 and rounded to x's type."""
    return function(x.astype(np.float64)).astype(x.dtype)


def convert(values: Array | np.generic, dtype: DataType) -> Array:
    """Values in another type as CAST has it.

    Float to integer cuts the fraction, takes the nearest bound beyond the range and zero for NaN; integers keep
    their low bits; floats round to nearest even.
    """
    values = np.asarray(values)
    if values.dtype == dtype.numpy:
        return values
    with np.errstate(all="ignore"):
        if values.dtype.kind == "f" and not dtype.is_float:
            return _saturate(values, dtype)
        return values.astype(dtype.numpy)


def _saturate(values: Array, dtype: DataType) -> Array:
    low, high = dtype.range
    whole = np.trunc(np.nan_to_num(values.astype(np.float64), nan=0.0))
    # float(high) of a 64-bit type rounds up to 2^63 or 2^64: everything from there on is beyond the range.
    inside = np.where((whole < float(low)) | (whole >= float(high)), 0.0, whole)
    result = inside.astype(dtype.numpy)
    result = np.where(whole >= float(high), dtype.numpy.type(high), result)
    return np.where(whole < float(low), dtype.numpy.type(low), result)
