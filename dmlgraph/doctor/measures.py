"""How far two arrays are apart, in the measures that people compare results by."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from dmlgraph.measure.ulp import compare

Array = np.ndarray[Any, Any]

TOP = 10  # the greatest elements of which `top` says how many are the same


@dataclasses.dataclass(frozen=True, slots=True)
class Measures:
    """The distance of an array from the expected one.

    Attributes:
        elements: their number.
        differing: how many differ at all; any two NaNs are equal.
        ulp: the largest distance in units in the last place; None: a NaN against a number.
        absolute: the largest difference of finite numbers.
        relative: the largest difference as a fraction of the expected number; infinite where that is 0.
        normalised: the root mean square of the differences as a fraction of that of the expected numbers.
        cosine: of the angle between the two as vectors; 1 is the same direction.
        top: the share of the TOP greatest elements along the last axis that are the same; None for shorter axes.
        not_finite: how many elements are NaN or infinite where the expected one is finite.
    """

    elements: int
    differing: int
    ulp: int | None
    absolute: float
    relative: float
    normalised: float
    cosine: float
    top: float | None
    not_finite: int

    @classmethod
    def of(cls, got: Array, expected: Array) -> Measures:
        """Measures two arrays of the same data type and shape.

        Raises:
            ValueError: the data types or shapes differ.
        """
        compared = compare(got, expected)
        a, b = (each.astype(np.float64).ravel() for each in (got, expected))
        both = np.isfinite(a) & np.isfinite(b)
        x, y = a[both], b[both]
        with np.errstate(all="ignore"):
            difference = np.abs(x - y)
            relative = np.where(difference > 0, difference / np.abs(y), 0.0)
            norms = float(np.linalg.norm(x)), float(np.linalg.norm(y))
            cosine = float(x @ y) / (norms[0] * norms[1]) if norms[0] and norms[1] else float(norms[0] == norms[1])
            off = float(np.linalg.norm(difference))
        return cls(
            elements=got.size,
            differing=compared.differing,
            ulp=compared.ulp,
            absolute=float(difference.max(initial=0.0)),
            relative=float(relative.max(initial=0.0)),
            normalised=off / norms[1] if norms[1] else (np.inf if off else 0.0),
            cosine=min(1.0, cosine),
            top=_overlap(got, expected),
            not_finite=int(np.count_nonzero(~np.isfinite(a) & np.isfinite(b))),
        )

    def rows(self) -> list[list[str]]:
        """A row of text for each measure."""
        found = [
            ["differing elements", f"{self.differing} of {self.elements}"],
            ["greatest distance", "a NaN against a number" if self.ulp is None else f"{self.ulp} ULP"],
            ["greatest difference", f"{self.absolute:.3g}"],
            ["relative to the element", f"{self.relative:.3g}"],
            ["normalised error", f"{self.normalised:.3g}"],
            ["cosine", f"{self.cosine:.9g}"],
        ]
        if self.top is not None:
            found.append([f"same among the greatest {TOP}", f"{self.top:.1%}"])
        if self.not_finite:
            found.append(["NaN or infinite", str(self.not_finite)])
        return found


def _overlap(got: Array, expected: Array) -> float | None:
    """The mean share of common places among the greatest elements along the last axis."""
    if not got.ndim or got.shape[-1] < 2 * TOP or got.dtype.kind != "f":
        return None
    rows = (each.reshape(-1, each.shape[-1]).astype(np.float64) for each in (got, expected))
    first, second = (np.argsort(-each, axis=1, kind="stable")[:, :TOP] for each in rows)
    common = [np.intersect1d(a, b).size for a, b in zip(first, second, strict=True)]
    return float(np.mean(common)) / TOP
