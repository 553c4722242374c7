"""The rules for numbers that the evaluations of all operators share."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dmlgraph.base.scalar import Scalar
from dmlgraph.base.tensor import DataType

Array = np.ndarray[Any, Any]
FLOAT16_MAX = 65504.0


def working(array: Array) -> Array:
    """The array in the type of its computation: float16 in float32, all other types unchanged."""
    return array.astype(np.float32) if array.dtype == np.float16 else array


def accurately(function: Callable[[Array], Array], x: Array) -> Array:
    """A float function computed in float64; `convert` rounds the result once to the output's type."""
    return function(x.astype(np.float64))


def accurate(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """A float function computed in float64, for the class of an operator."""
    return staticmethod(lambda x: accurately(function, x))


def greater(a: Array, b: Array) -> Array:
    """The greater of two numbers, or the one that is not NaN; of zeros of different signs the second.

    np.fmax takes either zero, depending on its position in the array.
    """
    return np.asarray(np.where((a > b) | np.isnan(b), a, b))


def lesser(a: Array, b: Array) -> Array:
    """The lesser of two numbers, as `greater`."""
    return np.asarray(np.where((a < b) | np.isnan(b), a, b))


def in_range(x: Array, dtype: DataType) -> Array:
    """Float64 values with the range of a narrower float type: infinite or zero if they are in that type, else exact."""
    kept = x.astype(dtype.numpy)
    return np.where(np.isinf(kept) | (kept == 0), kept, x)


def convert(values: Array | np.generic, dtype: DataType) -> Array:
    """Values converted to another type as in CAST.

    From float to integer the fraction is truncated, numbers beyond the range become the nearest bound, and NaN zero.
    Integers keep their low bits, but 8-bit ones are stored as Direct3D does, see `_store`.  Floats round to nearest
    even.
    """
    values = np.asarray(values)
    if values.dtype == dtype.numpy:
        return values
    with np.errstate(all="ignore"):
        if values.dtype.kind == "f" and not dtype.is_float:
            return _saturate(values, dtype)
        if values.dtype.kind in "iu" and (dtype.bits == 8 or (dtype.bits == 16 and values.dtype.itemsize == 1)):
            return _store(values, dtype)
        return values.astype(dtype.numpy)


def _store(values: Array, dtype: DataType) -> Array:
    """Integers written through a typed view, which saturates.

    Measured: DirectML reads and writes 8-bit tensors through typed views.  A shader's integers have 32 bits and
    the view's sign, so −1 stored as uint8 is 2^32 − 1 and becomes 255.
    """
    wide = values.astype(np.uint32).view(np.uint32 if not dtype.is_signed else np.int32)
    low, high = dtype.range
    return np.clip(wide, low, high).astype(dtype.numpy)


erf: Callable[[Array], Array] = np.vectorize(math.erf, otypes=[np.float64])  # NumPy has no erf


def cut(number: float, dtype: DataType) -> Any:
    """A FLOAT attribute in a tensor's type, as a NumPy scalar: integers truncate the fraction and keep the low bits.

    Measured.  Beyond 2^31 (2^63 for uint32 and 64-bit types) DirectML's own conversion is undefined in C++; here the
    low bits are kept there too, and NaN and infinity become zero.
    """
    if dtype.is_float:
        return convert(np.float32(number), dtype)[()]
    whole = int(number) if math.isfinite(number) else 0
    return Scalar(dtype, whole & ((1 << dtype.bits) - 1)).value


def _saturate(values: Array, dtype: DataType) -> Array:
    low, high = dtype.range
    whole = np.trunc(np.nan_to_num(values.astype(np.float64), nan=0.0))
    # float(high) of a 64-bit type rounds up to 2^63 or 2^64: that number and greater ones are beyond the range.
    inside = np.where((whole < float(low)) | (whole >= float(high)), 0.0, whole)
    result = inside.astype(dtype.numpy)
    result = np.where(whole >= float(high), dtype.numpy.type(high), result)
    return np.where(whole < float(low), dtype.numpy.type(low), result)
