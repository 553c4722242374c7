"""Whether elements of arrays share memory: each result needs memory of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

# How much work NumPy may spend on an exact answer, some milliseconds: for a few unrealistic strides the problem is as
# hard as factoring.
_MOST_WORK = 100_000


def overlap(a: Array, b: Array) -> bool:
    """Whether two arrays share memory; also True if that is too hard to tell."""
    try:
        return np.shares_memory(a, b, max_work=_MOST_WORK)  # type: ignore[arg-type]  # its stub knows -1 and 0 only
    except np.exceptions.TooHardError:
        return True


def overlaps_itself(array: Array) -> bool:
    """Whether two elements of an array share memory; also True if that is too hard to tell."""
    axes = sorted((abs(stride), size) for size, stride in zip(array.shape, array.strides, strict=True) if size > 1)
    end = array.itemsize  # one past the last byte of the elements along the axes so far
    for stride, size in axes:
        if stride < end:
            return _crosses_itself(array)
        end += stride * (size - 1)
    return False


def _crosses_itself(array: Array) -> bool:
    """The same as `overlaps_itself`, for any strides.

    Take two elements that share memory and the first axis along which their indices differ.  Shifting both moves
    one to index 0 along this axis and the other to a higher index.
    """
    for axis in range(array.ndim):
        rest = array[(slice(0, 1),) * axis]
        along = (slice(None),) * axis
        if array.shape[axis] > 1 and overlap(rest[(*along, slice(0, 1))], rest[(*along, slice(1, None))]):
            return True
    return False
