"""Measures by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dmlgraph.doctor.measures import Measures


def test_measures_of_two_vectors() -> None:
    measures = Measures.of(np.array([3, 5], np.float32), np.array([3, 4], np.float32))
    assert (measures.elements, measures.differing, measures.ulp) == (2, 1, 1 << 21)  # 4 to 5 is a quarter of an octave
    assert (measures.absolute, measures.relative, measures.normalised) == (1.0, 0.25, 1 / 5)
    assert measures.cosine == pytest.approx(29 / (math.sqrt(34) * 5))
    assert (measures.top, measures.not_finite) == (None, 0)


def test_nan_and_zero() -> None:
    measures = Measures.of(np.array([np.nan, 0, 1], np.float32), np.array([1, 0, 0], np.float32))
    assert (measures.ulp, measures.not_finite, measures.relative) == (None, 1, math.inf)
    same = Measures.of(np.array([np.nan, 2], np.float32), np.array([np.nan, 2], np.float32))
    assert (same.differing, same.cosine, same.normalised) == (0, 1.0, 0.0)


def test_the_overlap_of_the_greatest() -> None:
    logits = np.arange(40, dtype=np.float32)[None]
    changed = logits.copy()
    changed[0, :3] += 100  # three others are now among the ten greatest
    assert Measures.of(changed, logits).top == 0.7
    assert ["same among the greatest 10", "70.0%"] in Measures.of(changed, logits).rows()
