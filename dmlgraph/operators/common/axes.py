"""Sizes and arrays along axes, which number the dimensions of the declared description from the left, from zero."""

from __future__ import annotations

from typing import Any

import numpy as np


def with_size(sizes: tuple[int, ...], axis: int, size: int) -> tuple[int, ...]:
    """The sizes with another size along the axis."""
    return (*sizes[:axis], size, *sizes[axis + 1 :])


def reduced_sizes(sizes: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """The sizes after the axes are reduced to one element each."""
    return tuple(1 if axis in axes else size for axis, size in enumerate(sizes))


def reduced_last(x: np.ndarray[Any, Any], axes: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """The array with the elements along the axes moved into one last axis, row-major."""
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    return x.transpose(*kept, *sorted(axes)).reshape(*(x.shape[axis] for axis in kept), -1)
