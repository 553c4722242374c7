"""The distance of arrays."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmlgraph.measure.ulp import REACH, Tolerance, compare, show_number

INF, NAN = np.inf, np.nan
SUBNORMAL = float(np.float32(2.0**-149))
GREATEST = float(np.finfo(np.float32).max)


@pytest.mark.parametrize(
    ("dtype", "a", "b", "ulp", "absolute"),
    [
        ("float32", 1.0, 1.0, 0, 0.0),
        ("float32", 1.0, 1 + 2.0**-23, 1, 2.0**-23),
        ("float32", 1.0, 1 - 2.0**-24, 1, 2.0**-24),
        ("float32", 1.0, 2.0, 2**23, 1.0),
        ("float32", -0.0, 0.0, 1, 0.0),
        ("float32", 0.0, SUBNORMAL, 1, SUBNORMAL),
        ("float32", -SUBNORMAL, SUBNORMAL, 3, 2 * SUBNORMAL),
        ("float32", INF, INF, 0, 0.0),
        ("float32", INF, GREATEST, 1, INF),
        ("float32", INF, -INF, 2 * 0x7F800000 + 1, INF),
        ("float32", NAN, NAN, 0, 0.0),
        ("float32", NAN, 1.0, None, NAN),
        ("float32", -INF, NAN, None, NAN),
        ("float16", 1.0, 1 + 2.0**-10, 1, 2.0**-10),
        ("float16", -1.0, 1.0, 2 * 0x3C00 + 1, 2.0),
        ("float64", 1.0, 1 + 2.0**-52, 1, 2.0**-52),
        ("float64", -INF, INF, 2 * 0x7FF0000000000000 + 1, INF),
        ("int8", -128, 127, 255, 255.0),
        ("uint8", 0, 255, 255, 255.0),
        ("int32", -1, 1, 2, 2.0),
        ("int64", -(2**63), 2**63 - 1, 2**64 - 1, 2.0**64),
        ("uint64", 0, 2**64 - 1, 2**64 - 1, 2.0**64),
        (ml_dtypes.int4, -8, 7, 15, 15.0),
        (ml_dtypes.uint4, 0, 15, 15, 15.0),
    ],
)
def test_the_distance_of_two_numbers(dtype: Any, a: float, b: float, ulp: int | None, absolute: float) -> None:
    first, second = np.array([a]).astype(dtype), np.array([b]).astype(dtype)
    for found in (compare(first, second), compare(second, first)):
        assert found.ulp == ulp
        assert found.absolute == absolute or (math.isnan(found.absolute) and math.isnan(absolute))
        assert found.equal == (ulp == 0)
        assert compare(first, second, 2**64).equal == (ulp is not None)
        if ulp:
            assert compare(first, second, ulp).equal
            assert not compare(first, second, ulp - 1).equal


@given(st.floats(width=32, allow_nan=False, max_value=2.0**127), st.integers(0, 20))  # no step reaches infinity
def test_the_distance_counts_the_steps_to_the_next_number(start: float, steps: int) -> None:
    a = b = np.array([start], np.float32)
    for _ in range(steps):
        b = np.nextafter(b, np.float32(INF))
    crosses_zero = bool(np.signbit(a)[0] != np.signbit(b)[0])
    assert compare(a, b).ulp == steps + crosses_zero  # nextafter treats both zeros as one number


def test_the_greatest_difference_is_told_with_its_place() -> None:
    a = np.array([[1, 2, 3], [4, 5, NAN]], np.float32)
    b = np.array([[1, 2 + 2.0**-21, 3], [4 + 2.0**-21, 5, NAN]], np.float32)
    found = compare(a, b)
    assert (found.elements, found.differing, found.ulp) == (6, 2, 2)
    assert (found.index, found.values) == ((0, 1), (2, 2 + 2.0**-21))
    assert found.absolute == 2.0**-21
    assert compare(a, b, 1).differing == 1
    assert compare(a, b, 2).equal


def test_of_equally_many_ulp_the_greater_difference_is_shown() -> None:
    a = np.array([0.0, 1, 100], np.float32)
    b = np.array([-0.0, 1 + 2.0**-23, 100 + 2.0**-17], np.float32)
    assert compare(a, b).index == (2,)


def test_a_nan_against_a_number_is_further_than_any_number() -> None:
    found = compare(np.array([INF, NAN], np.float32), np.array([-INF, 0], np.float32))
    assert (found.index, found.ulp, found.differing) == ((1,), None, 2)


def test_nans_of_other_bits_are_equal_and_counted() -> None:
    a = np.array([0x7FC00000, 0x7FC00000, 0xFFC00001], np.uint32).view(np.float32)
    b = np.array([0x7FC00000, 0x7FC00001, 0x7FC00001], np.uint32).view(np.float32)
    found = compare(a, b)
    assert found.equal
    assert (found.nans, found.ulp) == (2, 0)


def test_strided_arrays_are_compared_by_their_elements() -> None:
    whole = np.arange(24, dtype=np.float32).reshape(4, 6)
    found = compare(whole.T, np.where(whole == 8, 9, whole).T.copy())
    assert (found.index, found.differing) == ((2, 1), 1)


@pytest.mark.parametrize("other", [np.zeros(3, np.float32), np.zeros(2, np.float16)])
def test_only_like_arrays_are_compared(other: Any) -> None:
    with pytest.raises(ValueError, match="cannot be compared"):
        compare(np.zeros(2, np.float32), other)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.float32(0.1), "0.1 (0x3dcccccd)"),
        (np.float16(-0.0), "-0.0 (0x8000)"),
        (np.array([0x7FC00001], np.uint32).view(np.float32)[0], "nan (0x7fc00001)"),
        (np.float64(1.5), "1.5 (0x3ff8000000000000)"),
        (np.uint8(200), "200"),
        (np.array(-3).astype(ml_dtypes.int4)[()], "-3"),
    ],
)
def test_floats_are_shown_with_their_bits(value: Any, text: str) -> None:
    assert show_number(value) == text


finite = st.floats(width=32, allow_nan=False, allow_infinity=False)
parts = st.sampled_from([0.0, 1e-7, 1e-3, 0.5, 1.0, 2.0])


@given(finite, finite | st.just(INF), parts, parts)
def test_numbers_are_equal_within_the_relative_or_the_absolute_tolerance(
    a: float, b: float, relative: float, absolute: float
) -> None:
    first, second = np.array([a], np.float32), np.array([b], np.float32)
    tolerance = Tolerance(0, relative, absolute)
    near = abs(a - b) <= max(relative * max(abs(a), abs(b)), absolute) and b != INF
    asked = relative > 0 or absolute > 0
    assert compare(first, second, tolerance).equal == (compare(first, second).equal or (asked and near))
    assert compare(second, first, tolerance).equal == compare(first, second, tolerance).equal


def test_any_of_the_tolerances_is_enough() -> None:
    a, b = np.array([1.0], np.float32), np.array([1 + 2.0**-20], np.float32)
    assert not compare(a, b).equal
    assert compare(a, b, Tolerance(ulp=8)).equal
    assert compare(a, b, Tolerance(relative=1e-5)).equal
    assert compare(a, b, Tolerance(absolute=1e-5)).equal
    assert not compare(a, b, Tolerance(7, 1e-7, 1e-7)).equal


def test_the_place_that_is_told_is_one_that_differs() -> None:
    """With a relative tolerance, a few units in the last place do not count near zero."""
    a = np.array([1e-30, 1.0], np.float32)
    b = np.array([-1e-30, 1.1], np.float32)
    assert compare(a, b).index == (0,)
    found = compare(a, b, Tolerance(absolute=1e-6))
    assert (found.index, found.differing) == ((1,), 1)


@pytest.mark.parametrize("value", [NAN, INF])
def test_no_tolerance_makes_an_infinity_or_a_nan_equal_to_a_number(value: float) -> None:
    a, b = np.array([value], np.float32), np.array([1.0], np.float32)
    assert not compare(a, b, Tolerance(0, 1.0, 1e30)).equal


def test_whole_numbers_have_tolerances_too() -> None:
    a, b = np.array([100, -128], np.int8), np.array([101, 127], np.int8)
    assert compare(a, b, Tolerance(relative=0.01)).differing == 1
    assert compare(a, b, Tolerance(absolute=255)).equal


@pytest.mark.parametrize("shape", [(1,), (3,), (2, 3), (1, 7, 1), (2, 1, 2, 2)], ids=str)
def test_the_worst_element_comes_with_those_around_it_in_row_major_order(shape: tuple[int, ...]) -> None:
    a = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    for worst in range(a.size):
        b = a.copy()
        b.flat[worst] += 100
        comparison = compare(a, b)
        flats = range(max(0, worst - REACH), min(a.size, worst + REACH + 1))
        assert [float(x) for _, x, _ in comparison.around] == list(flats)
        assert all((a[index], b[index]) == (x, y) for index, x, y in comparison.around)
        assert comparison.index in [index for index, _, _ in comparison.around]
