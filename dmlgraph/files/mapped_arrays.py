"""Arrays in files that are mapped into memory, or in other memory of which nobody has a second name."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
LEAST = 64 << 10  # bytes; files and tensors that are smaller are read, not mapped
_PIECE = 16 << 20  # bytes


class _Taken(Array):
    """The memory of what was taken out of a file."""


def never_changes(array: Array) -> bool:
    """Whether nobody can write into the array's memory: it lies in `bytes`, or was taken out of a file."""
    return type(_owner(array)) in (bytes, _Taken)


def taken_out(array: Array) -> Array:
    """The array; a copy if it lies in a mapped file, whose pages are given back: who writes the file changes them.

    It is copied piece by piece, so that it is not in memory twice.  A graph keeps the copy as it is.
    """
    owner = _owner(array)
    if type(owner) is not mmap.mmap:
        return array
    gives_back = hasattr(mmap, "MADV_DONTNEED") and memoryview(owner).readonly
    source, memory = np.ascontiguousarray(array).reshape(-1).view(np.uint8), _Taken(array.nbytes, np.uint8)
    for start in range(0, array.nbytes, _PIECE):
        memory[start : start + _PIECE] = source[start : start + _PIECE]
        if gives_back:
            owner.madvise(mmap.MADV_DONTNEED)  # all of it: the system maps pages around those that are read
    memory.flags.writeable = False
    return memory.view(np.ndarray).view(array.dtype).reshape(array.shape)


def _owner(array: Array) -> object:
    """What the array's memory belongs to."""
    owner: object = array
    while isinstance(owner, (np.ndarray, memoryview)):
        base = owner.obj if isinstance(owner, memoryview) else owner.base
        if base is None:
            break
        owner = base
    return owner
