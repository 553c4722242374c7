"""The distance of two arrays in units in the last place (ULP)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from dmlgraph.base.tensor import DataType

Array = np.ndarray[Any, Any]

REACH = 2  # elements shown on either side of the one that differs most


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of two arrays of the same data type and shape.

    One unit is the distance of adjacent numbers of the data type; −0.0 and 0.0 are adjacent.  For integers it is 1.
    Any two NaNs are equal, because the bits of a computed NaN are not specified.

    Attributes:
        elements: their number.
        differing: how many differ by more than the tolerance.
        ulp: the largest distance, of the differing elements if any differ; None: a NaN against a number.
        absolute: the largest difference; NaN where `ulp` is None.
        index: of the element with this `ulp`; of several, the one with the largest difference.
        values: the two elements there.
        nans: how many are NaNs with different bits.
        around: this element and those next to it in row-major order: the index, and the two elements there.
    """

    elements: int
    differing: int
    ulp: int | None
    absolute: float
    index: tuple[int, ...]
    values: tuple[Any, Any]
    nans: int
    around: tuple[tuple[tuple[int, ...], Any, Any], ...] = ()

    @property
    def equal(self) -> bool:
        """Whether all elements are equal, within the tolerance."""
        return not self.differing


@dataclasses.dataclass(frozen=True, slots=True)
class Tolerance:
    """The distances at which two numbers count as equal: within any of the three.

    Attributes:
        ulp: units in the last place.
        relative: a fraction of the larger magnitude.
        absolute: the difference.
    """

    ulp: int = 0
    relative: float = 0.0
    absolute: float = 0.0


def compare(a: Array, b: Array, tolerance: Tolerance | int = 0) -> Comparison:
    """Compares two arrays of the same data type and shape, element by element; see `Comparison`.

    Args:
        a: one.
        b: the other.
        tolerance: what counts as equal; a number means units in the last place.

    Raises:
        ValueError: the data types or shapes differ.
    """
    if a.dtype != b.dtype or a.shape != b.shape:
        raise ValueError(f"{a.dtype} {a.shape} cannot be compared with {b.dtype} {b.shape}")
    if not a.size:
        return Comparison(0, 0, ulp=0, absolute=0.0, index=(), values=(None, None), nans=0)
    first, second = _ordered(a), _ordered(b)
    distances = np.maximum(first, second) - np.minimum(first, second)
    both = one = np.zeros(a.shape, bool)
    if a.dtype.kind == "f":
        both, one = np.isnan(a) & np.isnan(b), np.isnan(a) ^ np.isnan(b)
    nans = int(np.count_nonzero(distances[both]))
    distances[both] = 0
    distances[one] = np.iinfo(distances.dtype).max  # further than any two numbers
    absolute = _absolute(a, b, distances)
    differs = one | ~_within(a, b, distances, absolute, tolerance)
    shown = np.where(differs, distances, 0) if differs.any() else distances
    candidates = np.flatnonzero(shown == shown.max())
    index = tuple(int(each) for each in np.unravel_index(candidates[absolute.flat[candidates].argmax()], a.shape))
    ulp = None if one[index] else int(distances[index])
    return Comparison(
        elements=a.size,
        differing=int(np.count_nonzero(differs)),
        ulp=ulp,
        absolute=float("nan") if ulp is None else float(absolute.max()),
        index=index,
        values=(a[index], b[index]),
        nans=nans,
        around=tuple(_around(a, b, index)),
    )


def _around(a: Array, b: Array, index: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], Any, Any]]:
    """An element and up to `REACH` on either side of it in row-major order."""
    centre = int(np.ravel_multi_index(index, a.shape))
    for flat in range(max(0, centre - REACH), min(a.size, centre + REACH + 1)):
        near = tuple(int(each) for each in np.unravel_index(flat, a.shape))
        yield near, a[near], b[near]


def _within(a: Array, b: Array, distances: Array, absolute: Array, tolerance: Tolerance | int) -> Array:
    """Which elements are within the tolerance."""
    if not isinstance(tolerance, Tolerance):
        tolerance = Tolerance(tolerance)
    within: Array = distances <= tolerance.ulp
    if tolerance.relative or tolerance.absolute:
        with np.errstate(invalid="ignore"):  # 0 times infinity
            greater = np.maximum(np.abs(a.astype(np.float64)), np.abs(b.astype(np.float64)))
            allowed = np.maximum(tolerance.absolute, tolerance.relative * greater)
        within |= np.isfinite(absolute) & (absolute <= allowed)  # an infinity equals only itself
    return within


def _ordered(array: Array) -> Array:
    """Unsigned integers in the order of the values; adjacent values differ by one."""
    dtype = DataType.parse(array.dtype)
    if dtype.bits == 4:
        array = array.astype(np.int8 if dtype.is_signed else np.uint8)
    array = np.ascontiguousarray(array)
    bits = array.view(f"u{array.itemsize}")
    sign = bits.dtype.type(1 << (8 * array.itemsize - 1))
    if dtype.is_float:  # sign and magnitude: negative numbers are in reverse order
        return np.where(bits & sign, ~bits, bits | sign)
    return bits ^ sign if dtype.is_signed else bits


def _absolute(a: Array, b: Array, distances: Array) -> Array:
    """|a − b|; 0 where they are equal (also infinities and NaNs), and where a NaN is compared with a number."""
    if a.dtype.kind != "f":
        return distances.astype(np.float64)
    with np.errstate(all="ignore"):
        differences = np.abs(a.astype(np.float64) - b.astype(np.float64))
    return np.where((distances == 0) | np.isnan(differences), 0.0, differences)


def show_number(value: Any) -> str:
    """A number as text, a float with its bits: `1.5 (0x3fc00000)`."""
    if not isinstance(value, np.floating):
        return str(value)
    bits = int(value.view(f"u{value.itemsize}"))
    return f"{value!s} (0x{bits:0{2 * value.itemsize}x})"
