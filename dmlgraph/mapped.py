"""Arrays in files that are mapped into memory, or in other memory of which nobody has a second name."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
LEAST = 64 << 10  # bytes; files and tensors that are smaller are read, not mapped


def never_changes(array: Array) -> bool:
    """Whether the array lies in `bytes`."""
    return type(_owner(array)) is bytes


def taken_out(array: Array) -> Array:
    """The array; a copy if it lies in a mapped file, whose pages are given back: who writes the file changes them.

    The copy lies in `bytes`, so that a graph keeps it as it is.
    """
    owner = _owner(array)
    if type(owner) is not mmap.mmap:
        return array
    copy = np.frombuffer(array.tobytes(), array.dtype).reshape(array.shape)
    if hasattr(mmap, "MADV_DONTNEED") and memoryview(owner).readonly:
        first = array.__array_interface__["data"][0] - np.frombuffer(owner, np.uint8).__array_interface__["data"][0]
        start = first // mmap.PAGESIZE * mmap.PAGESIZE
        owner.madvise(mmap.MADV_DONTNEED, start, first + array.nbytes - start)
    return copy


def _owner(array: Array) -> object:
    """What the array's memory belongs to."""
    owner: object = array
    while isinstance(owner, (np.ndarray, memoryview)):
        base = owner.obj if isinstance(owner, memoryview) else owner.base
        if base is None:
            break
        owner = base
    return owner
