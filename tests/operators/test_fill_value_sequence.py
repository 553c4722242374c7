"""FILL_VALUE_SEQUENCE: element i is value_start + i · value_delta; i counts the elements row-major."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.operators import exact
from support.operators.families import FillTests
from support.operators.harness import FLOATS, INF, INTEGERS, NAN, refused, run, source_case
from support.problems import expect

from dmlgraph.devices.names import DeviceName


class TestFillValueSequence(FillTests):
    operator = "fill_value_sequence"
    levels = "2.1: 4D ALL8 | 4.0: 1-8D ALL8 | 5.0: 1-8D ALL10"
    attributes: ClassVar = {"value_start": 0, "value_delta": 1}
    sample = source_case("two dimensions", [[3, 5, 7], [9, 11, 13]], "float32", value_start=3, value_delta=2)
    cases = (
        source_case("3 5 7 in {1,1,1,3}", [[[[3, 5, 7]]]], "float32", value_start=3, value_delta=2),
        source_case("10 8 6 4 in {1,1,2,2}", [[[[10, 8], [6, 4]]]], "uint8", value_start=10, value_delta=-2),
        source_case("127 + 1 wraps to −128", [127, -128, -127], "int8", value_start=127, value_delta=1),
        source_case("2^64 − 1 + 2 wraps to 1", [2**64 - 1, 1, 3], "uint64", value_start=2**64 - 1, value_delta=2),
        source_case("−2^63 − 1 wraps", [-(2**63), 2**63 - 1], "int64", value_start=-(2**63), value_delta=-1),
        source_case("wraps many times", [(200 * i) % 256 for i in range(20)], "uint8", value_start=0, value_delta=200),
        source_case("falls below zero", [1, 65535, 65533], "uint16", value_start=1, value_delta=-2),
        source_case("−1 is 2^32 − 1", [2**32 - 1, 2**32 - 2], "uint32", value_start=-1, value_delta=-1),
        *(source_case("counts", [0, 1, 2, 3], dtype, value_start=0, value_delta=1) for dtype in FLOATS + INTEGERS),
        *(
            source_case("delta zero is a constant", [5, 5, 5], dtype, value_start=5, value_delta=0)
            for dtype in FLOATS + INTEGERS
        ),
        *(
            source_case("fractions", [0.5, 0.25, 0.0, -0.25], dtype, value_start=0.5, value_delta=-0.25)
            for dtype in FLOATS
        ),
        # 0 · ∞ is NaN in the very first element.
        *(source_case("an infinite delta", [NAN, INF, INF], dtype, value_start=1, value_delta=INF) for dtype in FLOATS),
        *(source_case("an infinite start", [INF, INF], dtype, value_start=INF, value_delta=-5) for dtype in FLOATS),
        *(source_case("NaN", [NAN, NAN], dtype, value_start=NAN, value_delta=1) for dtype in FLOATS),
        source_case("beyond the range is infinity", [65504, INF], "float16", value_start=65504, value_delta=16),
        source_case(
            "eight dimensions",
            np.arange(24, dtype="int16").reshape(1, 2, 1, 2, 1, 2, 1, 3),
            "int16",
            value_start=0,
            value_delta=1,
        ),
    )

    @pytest.mark.parametrize("dtype", ["int64", "uint64"])
    def test_64_bit_integers_are_legal_from_5_0(self, dtype: str, device: DeviceName) -> None:
        fields: dict[str, Any] = {"sizes": [1, 1, 1, 2], "dtype": dtype, "value_start": 1, "value_delta": 2**40}
        np.testing.assert_array_equal(run(self.operator, device=device, target="5.0", **fields).ravel(), [1, 2**40 + 1])
        for level in ("2.1", "4.1"):
            error = refused(self.operator, target=level, **fields)
            assert (error.field, error.got) == ("output.dtype", dtype)
            assert dtype not in (error.allowed or "")
            assert f"at feature level {level}" in str(error)
            assert "legal from 5.0" in str(error)

    def test_float64_is_legal_at_no_level(self) -> None:
        error = refused(self.operator, sizes=[2], dtype="float64", value_start=0, value_delta=1)
        expect(error, "level", node="node", field="output.dtype", got="float64")

    @pytest.mark.parametrize("field", ["value_start", "value_delta"])
    def test_both_numbers_must_fit_the_type(self, field: str) -> None:
        for dtype, value, words in (("int8", 128, "does not fit"), ("uint8", 0.5, "whole numbers only")):
            numbers: dict[str, Any] = {"value_start": 0, "value_delta": 0} | {field: value}
            error = refused(self.operator, sizes=[2], dtype=dtype, **numbers)
            assert (error.field, error.got) == (field, value)
            assert words in str(error)

    def test_large_floats_show_no_accumulated_error(self, device: DeviceName) -> None:
        count = 2**24 + 3
        got = run(self.operator, device=device, sizes=[count], dtype="float32", value_start=0, value_delta=1)
        # Repeatedly adding 1 would stay at 2^24; i itself rounds to even there.
        assert got[-3:].tolist() == [2**24, 2**24, 2**24 + 2]
        for index in (2**22 + 1, 2**23 + 1, 2**24 - 1):
            assert got[index] == index
        tenths = run(self.operator, device=device, sizes=[count], dtype="float32", value_start=0, value_delta=0.1)
        step = Fraction(exact.rounded(Fraction(1, 10), "float32"))
        for index in (3, 1000003, 2**24 - 1, 2**24):
            assert tenths[index] == exact.rounded(index * step, "float32")

    def test_float16_is_rounded_at_every_step(self, device: DeviceName) -> None:
        start, delta = (Fraction(exact.rounded(Fraction(n), "float16")) for n in ("0.1", "0.3"))
        got = run(self.operator, device=device, sizes=[8192], dtype="float16", value_start=0.1, value_delta=0.3)
        for index in range(0, 8192, 37):
            rounded_index = Fraction(exact.rounded(index, "float16"))
            product = Fraction(exact.rounded(rounded_index * delta, "float16"))
            assert got[index] == exact.rounded(start + product, "float16")

    def test_the_product_and_the_sum_round_each(self, device: DeviceName) -> None:
        start, delta = -1.0, 1 / 3
        got = run(self.operator, device=device, sizes=[100], dtype="float32", value_start=start, value_delta=delta)
        for index, value in enumerate(got):
            product = Fraction(exact.rounded(index * Fraction(exact.rounded(Fraction(delta), "float32")), "float32"))
            assert value == exact.rounded(product - 1, "float32")

    def test_strides_do_not_change_the_order(self, device: DeviceName) -> None:
        fields: dict[str, Any] = {"sizes": [2, 2, 3], "dtype": "int32", "value_start": 0, "value_delta": 1}
        got = run(self.operator, device=device, strides=[1, 2, 4], **fields)
        assert got.tolist() == [[[0, 1, 2], [3, 4, 5]], [[6, 7, 8], [9, 10, 11]]]


@given(st.data(), st.sampled_from(INTEGERS), st.integers(1, 40), st.integers(1, 3))
def test_integers_are_python_integers_modulo_2_to_the_n(
    data: st.DataObject, dtype: str, columns: int, rows: int
) -> None:
    low, high = exact.limits(dtype)
    numbers = st.integers(low or -(high // 2) - 1, high)  # an unsigned type also takes two's complements
    start, delta = data.draw(numbers), data.draw(numbers)
    got = run("fill_value_sequence", sizes=[rows, columns], dtype=dtype, value_start=start, value_delta=delta)
    assert [int(value) for value in got.ravel()] == [
        exact.wrap(start + index * delta, dtype) for index in range(rows * columns)
    ]
