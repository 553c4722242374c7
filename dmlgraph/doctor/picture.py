"""Where in a tensor the errors lie: in words, as lines of text, and as an SVG image."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dmlgraph.base.errors import plural

Array = np.ndarray[Any, Any]

SHADES = " .:-=+*#%@"  # from right to the largest error
ROWS, COLUMNS = 16, 64  # of the picture in a terminal, at the most
CELL = 8  # pixels of a cell of the image
MOST_INDICES = 6  # that are named one by one


def errors(got: Array, expected: Array) -> Array:
    """The error of each element, float64; infinite where one is NaN or infinite and the other is another number."""
    a, b = (each.astype(np.float64) for each in (got, expected))
    with np.errstate(all="ignore"):
        off = np.abs(a - b)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    return np.where(same, 0.0, np.where(np.isfinite(off), off, np.inf))


def places(off: Array) -> list[str]:
    """Where the errors lie along each axis, in words, such as `axis 1: only 3 of 0 to 7`."""
    found = []
    for axis, size in enumerate(off.shape):
        others = tuple(each for each in range(off.ndim) if each != axis)
        indices = np.flatnonzero((off > 0).any(axis=others))
        if size > 1 and 0 < indices.size < size:
            found.append(f"axis {axis}: {_described(indices.tolist(), size)}")
    if _is_border(off):
        found.append("only at the border of the last two axes")
    return found


def _described(indices: Sequence[int], size: int) -> str:
    """Some indices of an axis, as a person would say them."""
    whole = f"of 0 to {size - 1}"
    if len(indices) == 1:
        return f"only {indices[0]} {whole}"
    steps = {b - a for a, b in itertools.pairwise(indices)}
    if steps == {1}:
        return f"only {indices[0]} to {indices[-1]} {whole}"
    if len(steps) == 1 and len(indices) > 2:
        return f"every {steps.pop()} from {indices[0]} to {indices[-1]} {whole}"
    if len(indices) <= MOST_INDICES:
        return f"only {', '.join(map(str, indices))} {whole}"
    return f"{plural(len(indices), 'place')} {whole}"


def _is_border(off: Array) -> bool:
    """Whether all errors lie in the first and last rows and columns, of which there are more."""
    if off.ndim < 2 or min(off.shape[-2:]) < 4 or not (off > 0).any():
        return False
    inner = off[..., 1:-1, 1:-1]
    edges = off[..., 0, :], off[..., -1, :], off[..., :, 0], off[..., :, -1]
    return not (inner > 0).any() and sum(bool((each > 0).any()) for each in edges) > 1


def grid(off: Array, rows: int = ROWS, columns: int = COLUMNS) -> Array:
    """The errors as a matrix of at most so many rows and columns: the largest of those that a cell stands for.

    The columns are the last axis, the rows all others.
    """
    matrix = off.reshape(-1, off.shape[-1]) if off.ndim else off.reshape(1, 1)
    for axis, most in enumerate((rows, columns)):
        size = matrix.shape[axis]
        starts = np.unique(np.arange(min(most, size)) * size // min(most, size))
        matrix = np.maximum.reduceat(matrix, starts, axis=axis)
    return matrix


def shades(matrix: Array) -> Array:
    """The errors from 0 to 1: by their logarithms, so that small ones are seen beside large ones."""
    known = matrix[(matrix > 0) & np.isfinite(matrix)]
    if not known.size:
        return np.where(matrix > 0, 1.0, 0.0)
    low, high = math.log(known.min()), math.log(known.max())
    with np.errstate(all="ignore"):
        scaled = (np.log(matrix) - low) / (high - low) if high > low else np.ones(matrix.shape)
    lowest = 1 / (len(SHADES) - 1)
    return np.where(matrix > 0, np.where(np.isfinite(matrix), lowest + (1 - lowest) * scaled, 1.0), 0.0)


def lines(got: Array, expected: Array) -> Iterator[str]:
    """The picture for a terminal, and where the errors lie in words."""
    off = errors(got, expected)
    yield from places(off)
    if off.size > 1:
        for row in shades(grid(off)):
            yield "|" + "".join(SHADES[round(float(each) * (len(SHADES) - 1))] for each in row) + "|"


def svg(got: Array, expected: Array) -> str:
    """The picture as an SVG image; what is right is white, the largest errors are dark red."""
    cells = shades(grid(errors(got, expected), 4 * ROWS, 2 * COLUMNS))
    height, width = cells.shape[0] * CELL, cells.shape[1] * CELL
    drawn = "".join(
        f'<rect x="{column * CELL}" y="{row * CELL}" width="{CELL}" height="{CELL}" fill="{_color(float(cell))}"/>'
        for (row, column), cell in np.ndenumerate(cells)
        if cell > 0
    )
    frame = f'<rect width="{width}" height="{height}" fill="white" stroke="gray"/>'
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{frame}{drawn}</svg>\n'


def _color(shade: float) -> str:
    """Light yellow for small errors, dark red for large ones."""
    low, high = (255, 230, 150), (150, 0, 0)
    return "#" + "".join(f"{round(a + (b - a) * shade):02x}" for a, b in zip(low, high, strict=True))
