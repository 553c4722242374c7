"""FILL_VALUE_CONSTANT: every element is the value, bit for bit."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.operators import exact
from support.operators.families import FillTests
from support.operators.harness import FLOATS, INF, INTEGERS, NAN, SIGNED, UNSIGNED, bits_of, refused, run, source_case

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.devices.names import DeviceName

BITS = {"float16": 16, "float32": 32, "float64": 64, **{dtype: int(dtype.lstrip("uint")) for dtype in INTEGERS}}


class TestFillValueConstant(FillTests):
    operator = "fill_value_constant"
    levels = "2.1: 4D ALL8 | 4.0: 1-8D ALL8 | 4.1: 1-8D ALL11"
    attributes: ClassVar = {"value": 0}
    sample = source_case("two dimensions", [[7, 7, 7], [7, 7, 7]], "float32", value=7)
    cases = (
        source_case("13 in {1,1,2,4}", [[[[13.0] * 4] * 2]], "float32", value=13.0),
        *(source_case("a whole number", [[100] * 3], dtype, value=100) for dtype in BITS),
        *(
            source_case("special values", [value] * 2, dtype, value=value)
            for dtype in (*FLOATS, "float64")
            for value in (INF, -INF, NAN, -0.0)
        ),
        *(
            source_case("the least", [exact.limits(dtype)[0]], dtype, value=exact.limits(dtype)[0])
            for dtype in INTEGERS
        ),
        *(
            source_case("the greatest", [exact.limits(dtype)[1]], dtype, value=exact.limits(dtype)[1])
            for dtype in INTEGERS
        ),
        *(source_case("−1 is its two's complement", [exact.limits(dtype)[1]], dtype, value=-1) for dtype in UNSIGNED),
        source_case("0.1 rounds", [exact.rounded(Fraction(1, 10), "float16")], "float16", value=Decimal("0.1")),
        source_case("0.1 rounds", [exact.rounded(Fraction(1, 10), "float32")], "float32", value=Fraction(1, 10)),
        source_case("eight dimensions", np.full([1, 2, 1, 2, 1, 2, 1, 3], 9, "int8"), "int8", value=9),
        source_case("3.0 is a whole number", [3], "int32", value=3.0),
        source_case("a NumPy number", [3], "uint16", value=np.int64(3)),
    )

    @pytest.mark.parametrize(
        ("dtype", "value", "words"),
        [
            ("int8", 128, "does not fit in int8"),
            ("int8", -129, "does not fit in int8"),
            ("uint8", 256, "does not fit in uint8"),
            ("uint8", -129, "two's complement"),
            ("uint64", 2**64, "does not fit in uint64"),
            ("int32", 0.5, "whole numbers only"),
            ("int32", NAN, "whole numbers only"),
            ("float16", 65520, "beyond the range of float16"),
            ("float32", 1e39, "beyond the range of float32"),
            ("float32", "3", "is not a number"),
            ("float32", True, "is not a number"),
            ("float32", None, "is not a number"),
            ("float32", {"bits": 2**32}, "is not a bit pattern of float32"),
        ],
    )
    def test_a_value_the_type_cannot_hold_is_refused(self, dtype: str, value: Any, words: str) -> None:
        error = refused("fill_value_constant", sizes=[1], dtype=dtype, value=value)
        assert error.field == "value"
        assert words in str(error)

    def test_uses_no_memory_of_its_own_for_a_large_tensor(self) -> None:
        graph = dg.Graph("test")
        value = graph.fill_value_constant(sizes=[2**16, 2**15], dtype="float32", value=1)
        assert value.desc.total_bytes == 2**33


@given(st.data(), st.sampled_from(sorted(BITS)))
def test_any_bit_pattern_is_kept(data: st.DataObject, dtype: DataTypeName) -> None:
    pattern = data.draw(st.integers(0, 2 ** BITS[dtype] - 1))
    got = run("fill_value_constant", sizes=[2, 3], dtype=dtype, value={"bits": pattern})
    assert got.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(bits_of(got), np.full([2, 3], pattern, f"u{BITS[dtype] // 8}"))


@pytest.mark.parametrize(
    ("dtype", "pattern"),
    [
        ("float32", 0x7FC00001),
        ("float32", 0xFFA00001),
        ("float32", 0x80000000),
        ("float16", 0x7E55),
        ("float16", 0x8000),
    ],
)
def test_nan_payloads_and_the_sign_of_zero_are_kept(dtype: str, pattern: int, device: DeviceName) -> None:
    number = exact.from_bits(dtype, pattern)[0]
    got = run("fill_value_constant", device=device, sizes=[3], dtype=dtype, value=number)
    np.testing.assert_array_equal(bits_of(got), [pattern] * 3)


@pytest.mark.parametrize("dtype", SIGNED)
def test_a_signed_type_takes_no_value_of_the_unsigned_one(dtype: str) -> None:
    low, high = exact.limits(dtype)
    error = refused("fill_value_constant", sizes=[1], dtype=dtype, value=high + 1)
    assert error.got == high + 1
    assert error.allowed == f"{low} to {high}"
