"""ELEMENT_WISE_DIVIDE: a / b, element by element; integers truncate the fraction."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.operators import exact
from support.operators.checks import BinaryTests
from support.operators.harness import FLOATS, INF, INTEGERS, NAN, SIGNED, UNSIGNED, case, each_dtype, run


class TestDivide(BinaryTests):
    operator = "divide"
    levels = (
        "1.0: 4D F32 F16 | 2.1: 4D F32 F16 I32 U32 | 3.0: 1-8D F32 F16 I32 U32"
        " | 5.1: 1-8D F32 F16 I32 I16 I8 U32 U16 U8 | 6.0: 1-8D ALL10"
    )
    sample = case("two dimensions", [[[12, 10, 9], [8, 5, 1]], [[4, 4, 3], [2, 2, 4]]], [[3, 2.5, 3], [4, 2.5, 0.25]])
    cases = (
        *each_dtype(FLOATS + INTEGERS, "whole quotients", [[12, 100, 0], [4, 25, 7]], [3, 4, 0]),
        *each_dtype(INTEGERS, "cuts the fraction", [[7, 99, 5], [2, 100, 3]], [3, 0, 1]),
        *each_dtype(SIGNED, "cuts toward zero", [[-7, 7, -7, -99], [2, -2, -2, 100]], [-3, -3, 3, 0]),
        # No source states this for signed integers: the results are the real library's.
        *each_dtype(("int16", "int64"), "by zero all bits are set", [[5, -5, 0], [0, 0, 0]], [-1, -1, -1]),
        *each_dtype(("int8", "int32"), "by zero all bits are set, then the sign", [[5, -5, 0], [0, 0, 0]], [-1, 1, -1]),
        *(
            case("by zero all bits are set", [[5, 0], [0, 0]], [exact.limits(dtype)[1]] * 2, dtype)
            for dtype in UNSIGNED
        ),
        *(
            case("least / −1 wraps to itself", [[exact.limits(dtype)[0]], [-1]], [exact.limits(dtype)[0]], dtype)
            for dtype in SIGNED
        ),
        *(
            case("extremes", [[low, high, high], [1, 1, high]], [low, high, 1], dtype)
            for dtype in INTEGERS
            for low, high in [exact.limits(dtype)]
        ),
        *each_dtype(FLOATS, "by zero", [[1, -1, 1, 0.0], [0.0, 0.0, -0.0, 0.0]], [INF, -INF, -INF, NAN]),
        *each_dtype(FLOATS, "infinities", [[INF, 1, -1, NAN], [INF, INF, INF, 1]], [NAN, 0.0, -0.0, NAN]),
        *(
            case(
                "thirds, sevenths",
                [[1, 2, 22], [3, 3, 7]],
                exact.round_all([Fraction(1, 3), Fraction(2, 3), Fraction(22, 7)], dtype),
                dtype,
            )
            for dtype in FLOATS
        ),
    )


@given(st.data(), st.sampled_from(INTEGERS))
def test_integer_quotients_are_cut_toward_zero(data: st.DataObject, dtype: str) -> None:
    numbers = st.integers(*exact.limits(dtype))
    a, b = data.draw(numbers), data.draw(numbers.filter(bool))
    got = run("divide", [np.array([a], dtype), np.array([b], dtype)])
    whole = abs(a) // abs(b)
    assert int(got[0]) == exact.wrap(whole if (a < 0) == (b < 0) else -whole, dtype)
