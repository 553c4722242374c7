"""ELEMENT_WISE_BIT_AND, BIT_OR, BIT_XOR, BIT_NOT: on the raw bits; the data type only says how many there are."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.operators import exact
from support.operators.checks import BinaryTests, UnaryTests
from support.operators.harness import FLOATS, INTEGERS, SIGNED, UNSIGNED, Case, bits_of, case, each_dtype, run

from dmlgraph.devices.names import DeviceName

LEVELS = "3.0: 1-8D U32 U16 U8 | 4.1: 1-8D ALL11"
A, B = [[12, 10, 7], [0, 255, 1]], [[10, 5, 2], [9, 170, 1]]
ONE_THREE = {"float16": (0x3C00, 0x4200), "float32": (0x3F800000, 0x40400000), "float64": (0x3FF << 52, 0x4008 << 48)}


def floats(why: str, combine: Any) -> list[Case]:
    """1 and 3 as floats, their patterns combined as whole numbers, and the signs of zeros."""
    return [
        case(
            why,
            [exact.from_bits(dtype, one, sign), exact.from_bits(dtype, three, sign)],
            exact.from_bits(dtype, combine(one, three), combine(sign, sign)),
            dtype,
        )
        for dtype, (one, three) in ONE_THREE.items()
        for sign in [1 << (8 * np.dtype(dtype).itemsize - 1)]
    ]


class BitTests(BinaryTests):
    levels = LEVELS


class TestBitAnd(BitTests):
    operator = "bit_and"
    sample = case("two dimensions", [A, B], [[8, 0, 2], [0, 170, 1]], "uint8")
    cases = (
        *each_dtype(INTEGERS, "both", [[12, 10, 127], [10, 5, 85]], [8, 0, 85]),
        *each_dtype(SIGNED, "the sign is a bit", [[-1, -2, -128], [5, -3, -1]], [5, -4, -128]),
        *floats("the bits of floats", lambda a, b: a & b),
    )


class TestBitOr(BitTests):
    operator = "bit_or"
    sample = case("two dimensions", [A, B], [[14, 15, 7], [9, 255, 1]], "uint8")
    cases = (
        *each_dtype(INTEGERS, "any", [[12, 10, 42], [10, 5, 85]], [14, 15, 127]),
        *each_dtype(SIGNED, "the sign is a bit", [[-2, 0, -128], [1, -5, 5]], [-1, -5, -123]),
        *floats("the bits of floats", lambda a, b: a | b),
    )


class TestBitXor(BitTests):
    operator = "bit_xor"
    sample = case("two dimensions", [A, B], [[6, 15, 5], [9, 85, 0]], "uint8")
    cases = (
        *each_dtype(INTEGERS, "one of both", [[12, 10, 127], [10, 5, 85]], [6, 15, 42]),
        *each_dtype(SIGNED, "the sign is a bit", [[-1, -1, -128], [1, -1, 0]], [-2, 0, -128]),
        *floats("the bits of floats", lambda a, b: a ^ b),
    )


class TestBitNot(UnaryTests):
    operator = "bit_not"
    levels = LEVELS
    sample = case("two dimensions", [A], [[243, 245, 248], [255, 0, 254]], "uint8")
    cases = (
        *(
            case("all turned over", [[0, 5, high]], [high, high - 5, 0], dtype)
            for dtype in UNSIGNED
            for high in [exact.limits(dtype)[1]]
        ),
        *each_dtype(SIGNED, "all turned over", [[0, 5, -1, -128]], [-1, -6, 0, 127]),
        case(
            "the bits of floats",
            [exact.from_bits("float32", 0, 0x3F800000)],
            exact.from_bits("float32", 0xFFFFFFFF, 0xC07FFFFF),
        ),
        case(
            "the bits of floats",
            [exact.from_bits("float16", 0xC3FF, 0x8000)],
            exact.from_bits("float16", 0x3C00, 0x7FFF),
            "float16",
        ),
        case(
            "the bits of floats",
            [exact.from_bits("float64", 0xC00FFFFFFFFFFFFF)],
            exact.from_bits("float64", 0x3FF << 52),
            "float64",
        ),
    )

    def test_payloads_of_nan_are_kept(self, device: DeviceName) -> None:
        x = exact.from_bits("float32", 0x803FFFFE)
        np.testing.assert_array_equal(bits_of(run("bit_not", [x], device=device)), [0x7FC00001])


@given(st.data(), st.sampled_from((*UNSIGNED, *FLOATS, "float64")))
def test_patterns_combine_as_whole_numbers(data: st.DataObject, dtype: str) -> None:
    numbers = st.integers(0, 2 ** (8 * np.dtype(dtype).itemsize) - 1)
    a, b = data.draw(numbers), data.draw(numbers)
    inputs = [exact.from_bits(dtype, a), exact.from_bits(dtype, b)]
    for operator, expected in (("bit_and", a & b), ("bit_or", a | b), ("bit_xor", a ^ b)):
        assert int(bits_of(run(operator, inputs))[0]) == expected
