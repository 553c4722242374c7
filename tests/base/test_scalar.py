"""Scalars: numbers that a data type can hold, as the 8 bytes of DML_SCALAR_UNION, and numbers that it cannot."""

from __future__ import annotations

import dataclasses
import math
import struct
from decimal import Decimal
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dmlgraph import DataType, Scalar, ScalarError
from dmlgraph.base.scalar import array_of

FLOATS = [DataType.FLOAT16, DataType.FLOAT32, DataType.FLOAT64]
INTEGERS = [dtype for dtype in DataType if not dtype.is_float]
UNSIGNED = [dtype for dtype in INTEGERS if not dtype.is_signed]
SIGNED = [dtype for dtype in INTEGERS if dtype.is_signed]
FLOAT_FORMATS = {16: "<e", 32: "<f", 64: "<d"}
# Significand bits (including the implied one) and the exponent of the smallest subnormal number.
FLOAT_SHAPES = {16: (11, -24), 32: (24, -149), 64: (53, -1074)}
FLOAT_INFINITY = {16: 0x7C00, 32: 0x7F800000, 64: 0x7FF0000000000000}


def bits(value: object, dtype: Any) -> int:
    return Scalar.of(value, DataType.parse(dtype)).bits


def refused(value: object, dtype: Any) -> ScalarError:
    with pytest.raises(ScalarError) as caught:
        Scalar.of(value, DataType.parse(dtype))
    return caught.value


def nearest_even(number: Fraction, dtype: DataType) -> int:
    """The bits of the float closest to a number, found by exact comparison of the two candidates around it.

    Finite floats of one sign are ordered as their bit patterns are, so the neighbours have patterns n and n + 1.
    """
    magnitude = abs(number)
    low, high = 0, FLOAT_INFINITY[dtype.bits]
    while high - low > 1:
        middle = (low + high) // 2
        if exact(middle, dtype) <= magnitude:
            low = middle
        else:
            high = middle
    below, above = magnitude - exact(low, dtype), exact(high, dtype) - magnitude
    chosen = low if below < above or (below == above and low % 2 == 0) else high
    return chosen | (1 << (dtype.bits - 1) if number < 0 else 0)


def exact(pattern: int, dtype: DataType) -> Fraction:
    """The value of a positive float's bits; infinity's are read as the number after the largest."""
    significand, least = FLOAT_SHAPES[dtype.bits]
    exponent, fraction = divmod(pattern, 1 << (significand - 1))
    if exponent == 0:
        return Fraction(fraction) * Fraction(2) ** least
    return Fraction(fraction + (1 << (significand - 1))) * Fraction(2) ** (least + exponent - 1)


# Floats.


@pytest.mark.parametrize("dtype", FLOATS)
@given(st.fractions() | st.integers(-(10**40), 10**40) | st.decimals(allow_nan=False, allow_infinity=False, places=9))
@example(Fraction(2**24 + 1))
@example(Fraction(1) + Fraction(1, 2**11))
@example(Fraction(1) + Fraction(1, 2**11) + Fraction(1, 2**200))
@example(Fraction(1) + Fraction(1, 2**24) - Fraction(1, 2**200))
@example(Fraction(3, 2**25))
@example(Fraction(65519))
@example(2**53 + 1)
def test_a_real_number_is_rounded_once_to_nearest_even(dtype: DataType, number: Any) -> None:
    expected = nearest_even(Fraction(number), dtype)
    if expected & (FLOAT_INFINITY[dtype.bits]) == FLOAT_INFINITY[dtype.bits]:
        assert "is beyond the range" in str(refused(number, dtype))
    elif number == 0:
        assert bits(number, dtype) in (0, 1 << (dtype.bits - 1))
    else:
        assert bits(number, dtype) == expected


@pytest.mark.parametrize("dtype", [DataType.FLOAT16, DataType.FLOAT32])
@given(st.data())
def test_numbers_at_and_beside_midpoints_are_rounded_right(dtype: DataType, data: st.DataObject) -> None:
    pattern = data.draw(st.integers(0, FLOAT_INFINITY[dtype.bits] - 2))
    middle = (exact(pattern, dtype) + exact(pattern + 1, dtype)) / 2
    beside = Fraction(data.draw(st.integers(-1, 1)), 2**1200)  # less than a double can represent
    number = data.draw(st.sampled_from([1, -1])) * (middle + beside)
    assert bits(number, dtype) == nearest_even(number, dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_python_float_is_rounded_to_nearest_even(dtype: DataType, number: float) -> None:
    expected = nearest_even(Fraction(number), dtype) | (1 << (dtype.bits - 1) if math.copysign(1, number) < 0 else 0)
    if expected & FLOAT_INFINITY[dtype.bits] == FLOAT_INFINITY[dtype.bits]:
        refused(number, dtype)
    else:
        assert bits(number, dtype) == expected
        assert bits(np.float64(number), dtype) == expected
        assert bits(np.longdouble(number), dtype) == expected


@pytest.mark.parametrize(
    ("dtype", "least_refused", "greatest"),
    [
        ("float16", 65520, 65504),
        ("float32", 2**128 - 2**103, 2**128 - 2**104),
        ("float64", 2**1024 - 2**970, 2**1024 - 2**971),
    ],
)
def test_a_finite_number_beyond_the_range_is_refused(dtype: str, least_refused: int, greatest: int) -> None:
    for sign in (1, -1):
        assert math.isfinite(Scalar.of(sign * (least_refused - 1), DataType.parse(dtype)).value)
        assert Scalar.of(sign * greatest, DataType.parse(dtype)).value == sign * greatest
        error = refused(sign * least_refused, dtype)
        assert f"is beyond the range of {dtype}" in str(error)
        assert "infinity and NaN" in (error.allowed or "")


@pytest.mark.parametrize(
    "number",
    [10**5000, -(10**5000), Fraction(10**5000, 3), Decimal("1e5000"), Decimal("1e999999999")],
    ids=["int", "negative", "fraction", "decimal", "vast"],
)
@pytest.mark.parametrize("dtype", DataType)
def test_a_number_beyond_all_bounds_is_refused_like_any_other(number: Any, dtype: DataType) -> None:
    refused(number, dtype)


def test_a_number_too_small_to_see_is_zero_of_its_sign() -> None:
    assert bits(Decimal("1e-999999999"), "float32") == 0
    assert bits(Decimal("-1e-999999999"), "float32") == 0x80000000
    assert bits(Fraction(-1, 10**400), "float64") == 1 << 63
    assert "whole numbers only" in str(refused(Decimal("1e-999999999"), "uint8"))


@pytest.mark.parametrize("zero", [-0.0, np.float16(-0.0), np.float32(-0.0), np.longdouble("-0.0"), Decimal("-0.0")])
@pytest.mark.parametrize("dtype", FLOATS)
def test_minus_zero_is_kept(zero: object, dtype: DataType) -> None:
    assert bits(zero, dtype) == 1 << (dtype.bits - 1)


@pytest.mark.parametrize(
    "infinity", [math.inf, np.float16(math.inf), np.float32(math.inf), np.longdouble("inf"), Decimal("Infinity")]
)
@pytest.mark.parametrize("dtype", FLOATS)
def test_infinities_are_kept(infinity: Any, dtype: DataType) -> None:
    assert bits(infinity, dtype) == FLOAT_INFINITY[dtype.bits]
    assert bits(-infinity, dtype) == FLOAT_INFINITY[dtype.bits] | 1 << (dtype.bits - 1)


@pytest.mark.parametrize("nan", [math.nan, np.float32("nan"), np.longdouble("nan"), Decimal("NaN"), Decimal("sNaN")])
@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_is_a_number_of_every_float_type(nan: object, dtype: DataType) -> None:
    assert np.isnan(Scalar.of(nan, dtype).value)


@pytest.mark.parametrize(
    ("dtype", "pattern"),
    [("float16", 0xFE01), ("float32", 0x7FC00001), ("float32", 0xFF800001), ("float64", 0x7FF8 << 48 | 5)],
)
def test_nan_payloads_are_kept(dtype: str, pattern: int) -> None:
    given = Scalar.of({"bits": pattern}, DataType.parse(dtype))
    assert given.bits == pattern
    assert Scalar.of(given.value, given.dtype) == given  # a NumPy number of the type itself goes bit for bit
    assert given.plain == {"bits": hex(pattern)}
    assert Scalar.of(given.plain, given.dtype) == given


def test_float16_is_its_raw_half_bits() -> None:
    assert Scalar.of(1.5, DataType.FLOAT16).union == bytes([0x00, 0x3E, 0, 0, 0, 0, 0, 0])


# Integers.


@pytest.mark.parametrize("dtype", INTEGERS)
def test_an_integer_type_holds_all_of_its_range(dtype: DataType) -> None:
    low, high = dtype.range
    for number in {low, -1 if low else 1, 0, 1, high}:
        assert int(Scalar.of(number, dtype).value) == number
        assert bits(number, dtype) == number % (1 << dtype.bits)


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_a_negative_number_for_an_unsigned_type_is_its_twos_complement(dtype: DataType) -> None:
    assert bits(-1, dtype) == (1 << dtype.bits) - 1
    least = -(1 << (dtype.bits - 1))
    assert bits(least, dtype) == 1 << (dtype.bits - 1)
    error = refused(least - 1, dtype)
    assert f"does not fit in {dtype}" in str(error)
    assert error.got == least - 1
    assert error.allowed == f"{least} to {dtype.range[1]}; negative numbers are stored as two's complement"


def test_minus_2_for_uint8_is_0xfe() -> None:
    assert Scalar.of(-2, DataType.UINT8).union == bytes([0xFE, 0, 0, 0, 0, 0, 0, 0])


@pytest.mark.parametrize("dtype", SIGNED)
def test_a_signed_type_holds_nothing_outside_its_range(dtype: DataType) -> None:
    low, high = dtype.range
    for number in (low - 1, high + 1):
        error = refused(number, dtype)
        assert (error.got, error.allowed) == (number, f"{low} to {high}")


@pytest.mark.parametrize(
    ("number", "dtype", "text"),
    [
        (
            300,
            "uint8",
            "does not fit in uint8; got 300; allowed: -128 to 255; negative numbers are stored as two's complement",
        ),
        (-129, "uint8", "does not fit in uint8; got -129"),
        (-129, "int8", "does not fit in int8; got -129; allowed: -128 to 127"),
        (16, "uint4", "does not fit in uint4; got 16; allowed: -8 to 15"),
        (2**64, "uint64", "does not fit in uint64; got 18446744073709551616"),
        (1.5, "int32", "int32 holds whole numbers only; got 1.5"),
        (Fraction(1, 3), "int32", "int32 holds whole numbers only"),
        (math.nan, "uint64", "uint64 holds whole numbers only; got nan"),
        (math.inf, "int4", "int4 holds whole numbers only; got inf"),
    ],
)
def test_what_an_integer_type_cannot_hold_is_refused_in_clear_words(number: object, dtype: str, text: str) -> None:
    assert text in str(refused(number, dtype))


@pytest.mark.parametrize(
    "number",
    [
        3.0,
        np.float16(3),
        np.float64(3),
        Fraction(6, 2),
        Decimal("3.00"),
        np.int8(3),
        ml_dtypes.bfloat16(3),
        ml_dtypes.int4(3),
    ],
)
@pytest.mark.parametrize("dtype", DataType)
def test_a_whole_number_of_any_python_or_numpy_type_is_that_number(number: object, dtype: DataType) -> None:
    assert Scalar.of(number, dtype) == Scalar.of(3, dtype)


# Not numbers.


@pytest.mark.parametrize(
    "value",
    [
        "1",
        b"1",
        np.str_("1"),
        True,
        np.True_,
        None,
        1j,
        np.complex64(1),
        np.datetime64("2020"),
        [1],
        np.array([1.0]),
        object(),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "uint8", "int4"])
def test_what_is_not_a_real_number_is_refused(value: object, dtype: str) -> None:
    error = refused(value, dtype)
    assert str(error).startswith("is not a number")
    assert error.got is value


def test_a_number_in_quotes_gets_a_hint() -> None:
    assert (
        refused("1", "float32").hint == "a number, without quotes; infinities and NaN are .inf, -.inf and .nan in YAML"
    )


@pytest.mark.parametrize(
    "value", [{"bit": 1}, {}, {"bits": 1, "more": 2}, {"bits": 1.0}, {"bits": True}, {"bits": "z"}, {"bits": None}]
)
def test_a_mapping_that_is_not_a_bit_pattern_is_refused(value: dict[str, object]) -> None:
    error = refused(value, "float32")
    assert (error.got, error.allowed) == (value, "a number, or {bits: 0x…}")


@pytest.mark.parametrize("dtype", DataType)
def test_a_bit_pattern_has_as_many_bits_as_the_type(dtype: DataType) -> None:
    most = (1 << dtype.bits) - 1
    assert bits({"bits": most}, dtype) == bits({"bits": hex(most)}, dtype) == bits({"bits": str(most)}, dtype) == most
    for pattern in (-1, most + 1):
        error = refused({"bits": pattern}, dtype)
        assert (error.got, error.allowed) == (hex(pattern), f"0 to {hex(most)}")


def test_a_scalar_of_another_type_is_refused() -> None:
    scalar = Scalar.of(1, DataType.UINT8)
    assert Scalar.of(scalar, DataType.UINT8) is scalar
    error = refused(scalar, "int8")
    assert (error.got, error.allowed) == ("a uint8", "a int8")


# The union, and back.


def patterns(dtype: DataType) -> st.SearchStrategy[int]:
    return st.integers(0, (1 << dtype.bits) - 1)


def check_round_trip(dtype: DataType, pattern: int) -> None:
    scalar = Scalar(dtype, pattern)
    assert Scalar.of(scalar.plain, dtype) == scalar
    assert Scalar.of(scalar.value, dtype) == scalar


@pytest.mark.parametrize("dtype", [dtype for dtype in DataType if dtype.bits <= 16])
def test_every_pattern_of_a_narrow_type_reads_back(dtype: DataType) -> None:
    for pattern in range(1 << dtype.bits):
        check_round_trip(dtype, pattern)


@pytest.mark.parametrize("dtype", [dtype for dtype in DataType if dtype.bits > 16])
@given(st.data())
def test_any_pattern_of_a_wide_type_reads_back(dtype: DataType, data: st.DataObject) -> None:
    check_round_trip(dtype, data.draw(patterns(dtype)))


@pytest.mark.parametrize("dtype", DataType)
@given(st.data())
def test_the_union_is_the_pattern_little_endian_and_zeros(dtype: DataType, data: st.DataObject) -> None:
    pattern = data.draw(patterns(dtype))
    union = Scalar(dtype, pattern).union
    assert len(union) == 8
    assert struct.unpack("<Q", union) == (pattern,)
    if dtype.bits > 4:
        value = Scalar(dtype, pattern).value
        assert value.dtype == dtype.numpy
        assert union == value.tobytes().ljust(8, b"\0")


def test_scalars_are_values() -> None:
    scalar = Scalar.of(1.5, DataType.FLOAT16)
    assert scalar == Scalar.of(np.float64(1.5), DataType.FLOAT16)
    assert len({scalar, Scalar(DataType.FLOAT16, 0x3E00), Scalar(DataType.UINT16, 0x3E00)}) == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        scalar.bits = 0  # type: ignore[misc]


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (0.1, "float32", "0.1"),
        (0.1, "float64", "0.1"),
        (-0.0, "float16", "-0.0"),
        (math.inf, "float32", "inf"),
        (-2, "uint8", "254"),
        (-2, "int4", "-2"),
        ({"bits": 0x7FC00001}, "float32", "{'bits': '0x7fc00001'}"),
    ],
)
def test_a_scalar_prints_as_the_shortest_text_that_reads_back(value: object, dtype: str, text: str) -> None:
    assert str(Scalar.of(value, DataType.parse(dtype))) == text


# Arrays of them.


@pytest.mark.parametrize("dtype", DataType)
def test_lists_become_arrays_by_the_rules_of_scalars(dtype: DataType) -> None:
    array = array_of([[1, 2.0], [Fraction(3), np.int8(4)]], dtype)
    assert array.dtype == dtype.numpy
    assert array.astype(int).tolist() == [[1, 2], [3, 4]]
    for wrong in ([1, "2"], [1, None], [1, [2]], [True], ["a"], [1j]):
        with pytest.raises(ScalarError, match="is not a number"):
            array_of(wrong, dtype)


def test_an_array_of_another_type_is_converted_only_if_it_fits() -> None:
    assert array_of(np.array([1.0, 255.0]), DataType.UINT8).tolist() == [1, 255]
    assert array_of(np.array([-2, 3]), DataType.UINT8).tolist() == [254, 3]
    assert array_of(np.array([-2.0, 3.0]), DataType.UINT64).tolist() == [2**64 - 2, 3]
    assert array_of(np.array([0.1, math.inf]), DataType.FLOAT16).tolist() == [float(np.float16(0.1)), math.inf]
    for values, dtype in [
        ([1.5], "uint8"),
        ([256.0], "uint8"),
        ([math.nan], "int32"),
        ([1e10], "float16"),
        ([2.0**63], "int64"),
    ]:
        with pytest.raises(ScalarError):
            array_of(np.array(values), DataType.parse(dtype))


def test_an_array_of_the_type_keeps_its_bits() -> None:
    payload = np.array([0x7FC00001, 0xFFC00002], np.uint32).view(np.float32)
    assert array_of(payload, DataType.FLOAT32) is payload
