"""How far two arrays are apart, in units in the last place."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from dmlgraph.tensor import DataType

Array = np.ndarray[Any, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """Two arrays of one data type and shape.

    The unit is that between neighbouring numbers of the data type, of which −0.0 and 0.0 are two; for whole numbers
    it is 1.  Any two NaNs are equal, since nobody promises the bits of a NaN that was computed.

    Attributes:
        elements: how many there are.
        differing: how many are further apart than the tolerance.
        ulp: the greatest distance, of those that differ where some do; None: a NaN against a number.
        absolute: the greatest distance as a number; NaN where `ulp` is None.
        index: of the element with this `ulp`, of several that with the greatest absolute distance.
        values: the two elements there.
        nans: how many are NaNs of different bits.
    """

    elements: int
    differing: int
    ulp: int | None
    absolute: float
    index: tuple[int, ...]
    values: tuple[Any, Any]
    nans: int

    @property
    def equal(self) -> bool:
        """Whether all elements are equal, within the tolerance."""
        return not self.differing


@dataclasses.dataclass(frozen=True, slots=True)
class Tolerance:
    """How far apart two numbers may be and count as equal: within any of the three.

    Attributes:
        ulp: units in the last place.
        relative: a part of the greater of the two numbers.
        absolute: the difference itself.
    """

    ulp: int = 0
    relative: float = 0.0
    absolute: float = 0.0


def compare(a: Array, b: Array, tolerance: Tolerance | int = 0) -> Comparison:
    """Compares two arrays of one data type and shape, element by element; see `Comparison`.

    Args:
        a: one.
        b: the other.
        tolerance: what counts as equal; a number is of units in the last place.

    Raises:
        ValueError: other data types or shapes.
    """
    if a.dtype != b.dtype or a.shape != b.shape:
        raise ValueError(f"{a.dtype} {a.shape} cannot be compared with {b.dtype} {b.shape}")
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
    )


def _within(a: Array, b: Array, distances: Array, absolute: Array, tolerance: Tolerance | int) -> Array:
    """Which elements are within the tolerance."""
    if not isinstance(tolerance, Tolerance):
        tolerance = Tolerance(tolerance)
    within: Array = distances <= tolerance.ulp
    if tolerance.relative or tolerance.absolute:
        with np.errstate(invalid="ignore"):  # 0 times infinity
            greater = np.maximum(np.abs(a.astype(np.float64)), np.abs(b.astype(np.float64)))
            allowed = np.maximum(tolerance.absolute, tolerance.relative * greater)
        within |= np.isfinite(absolute) & (absolute <= allowed)  # an infinity is near itself alone
    return within


def _ordered(array: Array) -> Array:
    """Unsigned numbers in the order of the values, neighbours one apart."""
    dtype = DataType.parse(array.dtype)
    if dtype.bits == 4:
        array = array.astype(np.int8 if dtype.is_signed else np.uint8)
    array = np.ascontiguousarray(array)
    bits = array.view(f"u{array.itemsize}")
    sign = bits.dtype.type(1 << (8 * array.itemsize - 1))
    if dtype.is_float:  # sign and magnitude: the negative ones run backwards
        return np.where(bits & sign, ~bits, bits | sign)
    return bits ^ sign if dtype.is_signed else bits


def _absolute(a: Array, b: Array, distances: Array) -> Array:
    """|a − b|; 0 where they are equal, infinities and NaNs too, and where a NaN is compared with a number."""
    if a.dtype.kind != "f":
        return distances.astype(np.float64)
    with np.errstate(all="ignore"):
        differences = np.abs(a.astype(np.float64) - b.astype(np.float64))
    return np.where((distances == 0) | np.isnan(differences), 0.0, differences)


def show_number(value: Any) -> str:
    """A number, a float with its bits: `1.5 (0x3fc00000)`."""
    if not isinstance(value, np.floating):
        return str(value)
    bits = int(value.view(f"u{value.itemsize}"))
    return f"{value!s} (0x{bits:0{2 * value.itemsize}x})"
