"""Arrays in files that are mapped into memory, or in other memory of which nobody has a second name."""

from __future__ import annotations

import mmap
import os
import time
import weakref
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
LEAST = 64 << 10  # bytes; files and tensors that are smaller are read, not mapped
_PIECE = 16 << 20  # bytes
_SETTLED = 3.0  # seconds: what is written later has another time, also in file systems that count in two seconds

Place = tuple[float, ...]  # of bytes in a file that has not changed


class _Taken(Array):
    """The memory of what was taken out of a file."""


_TAKEN: weakref.WeakValueDictionary[Place, _Taken] = weakref.WeakValueDictionary()


def place_of(path: str | os.PathLike[str], offset: int, length: int) -> Place | None:
    """Of bytes in a file; None if the file was written so lately that what comes next may have the same time."""
    found = os.stat(path)
    if not 0 < found.st_mtime < time.time() - _SETTLED:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size, offset, length


def never_changes(array: Array) -> bool:
    """Whether nobody can write into the array's memory: it lies in `bytes`, or was taken out of a file."""
    return type(_owner(array)) in (bytes, _Taken)


def taken_out(array: Array, place: Place | None = None) -> Array:
    """The array; a copy if it lies in a mapped file, whose pages are given back: who writes the file changes them.

    It is copied piece by piece, so that it is not in memory twice.  A graph keeps the copy as it is.

    Args:
        array: contiguous if it has a place.
        place: from `place_of`; arrays of one place share a copy while one of them is there.
    """
    owner = _owner(array)
    if type(owner) is not mmap.mmap:
        return array
    memory = None if place is None else _TAKEN.get(place)
    if memory is None:
        memory = _copied(array, owner)
        if place is not None:
            _TAKEN[place] = memory
    return memory.view(np.ndarray).view(array.dtype).reshape(array.shape)


def _copied(array: Array, owner: mmap.mmap) -> _Taken:
    """The bytes of an array in a mapped file, read-only."""
    gives_back = hasattr(mmap, "MADV_DONTNEED") and memoryview(owner).readonly
    source, memory = np.ascontiguousarray(array).reshape(-1).view(np.uint8), _Taken(array.nbytes, np.uint8)
    for start in range(0, array.nbytes, _PIECE):
        memory[start : start + _PIECE] = source[start : start + _PIECE]
        if gives_back:
            owner.madvise(mmap.MADV_DONTNEED)  # all of it: the system maps pages around those that are read
    memory.flags.writeable = False
    return memory


def _owner(array: Array) -> object:
    """What the array's memory belongs to."""
    owner: object = array
    while isinstance(owner, (np.ndarray, memoryview)):
        base = owner.obj if isinstance(owner, memoryview) else owner.base
        if base is None:
            break
        owner = base
    return owner
