"""Whether elements of arrays share memory: each result needs a place of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

# Steps that NumPy may take to find out exactly, some milliseconds: for a few strides that nobody uses it is as hard as
# factoring.
_MOST_WORK = 100_000


def overlap(a: Array, b: Array) -> bool:
    """Whether two arrays share memory; True, too, where that is too hard to tell."""
    try:
        return np.shares_memory(a, b, max_work=_MOST_WORK)  # type: ignore[arg-type]  # its stub knows -1 and 0 only
    except np.exceptions.TooHardError:
        return True


def overlaps_itself(array: Array) -> bool:
    """Whether two elements of an array share memory; True, too, where that is too hard to tell."""
    axes = sorted((abs(stride), size) for size, stride in zip(array.shape, array.strides, strict=True) if size > 1)
    end = array.itemsize  # behind the elements along the axes so far
    for stride, size in axes:
        if stride < end:
            return _crosses_itself(array)
        end += stride * (size - 1)
    return False


def _crosses_itself(array: Array) -> bool:
    """The same for any strides.

    Take the first axis along which two elements differ.  Moved together, one has index 0 along it, and the other more.
    """
    for axis in range(array.ndim):
        rest = array[(slice(0, 1),) * axis]
        along = (slice(None),) * axis
        if array.shape[axis] > 1 and overlap(rest[(*along, slice(0, 1))], rest[(*along, slice(1, None))]):
            return True
    return False
