"""ELEMENT_WISE_MULTIPLY: a · b, element by element."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.operators import exact
from support.operators.checks import BinaryTests
from support.operators.harness import FLOATS, INF, INTEGERS, NAN, SIGNED, case, each_dtype, run


class TestMultiply(BinaryTests):
    operator = "multiply"
    levels = (
        "1.0: 4-5D F32 F16 | 2.1: 4-5D F32 F16 I32 U32 | 3.0: 1-8D F32 F16 I32 U32"
        " | 4.1: 1-8D F32 F16 I64 I32 U64 U32 | 5.1: 1-8D ALL10"
    )
    sample = case("two dimensions", [[[1, 2, 3], [4, 5, 6]], [[7, 8, 9], [10, 11, 12]]], [[7, 16, 27], [40, 55, 72]])
    cases = (
        *each_dtype(FLOATS + INTEGERS, "products", [[3, 0, 7], [5, 9, 11]], [15, 0, 77]),
        *each_dtype(FLOATS, "0 · ∞ is NaN", [[0.0, INF, -INF, NAN], [INF, 2, 2, 0]], [NAN, INF, -INF, NAN]),
        *each_dtype(FLOATS, "the sign of zero", [[-0.0, -0.0, 0.0], [3, -3, -3]], [-0.0, 0.0, -0.0]),
        *each_dtype(SIGNED, "signs", [[-3, -3, 3], [5, -5, -5]], [-15, 15, -15]),
        case("wraps: 16 · 16 is 0, 100 · 3 is 44", [[16, 100], [16, 3]], [0, 44], "uint8"),
        case("wraps: 100 · 2 is −56, −128 · −1 is −128", [[100, -128], [2, -1]], [-56, -128], "int8"),
        case("wraps: 65535² is 1", [[65535], [65535]], [1], "uint16"),
        case("wraps: (2^32 − 1)² is 1", [[2**32 - 1], [2**32 - 1]], [1], "uint32"),
        case("wraps: 2^63 · 2 is 0", [[2**63], [2]], [0], "uint64"),
        case("overflows to infinity", [[65504.0, 256.0], [2.0, 256.0]], [INF, INF], "float16"),
        case("rounds once", [[1 + 2.0**-23], [1 + 2.0**-23]], [1 + 2.0**-22]),
        case("tiny products are subnormal or zero", [[2.0**-24, 2.0**-24], [0.5, 0.75]], [0.0, 2.0**-24], "float16"),
    )


@given(st.data(), st.sampled_from(INTEGERS))
def test_integers_multiply_modulo_2_to_the_n(data: st.DataObject, dtype: str) -> None:
    numbers = st.integers(*exact.limits(dtype))
    a, b = data.draw(numbers), data.draw(numbers)
    got = run("multiply", [np.array([a], dtype), np.array([b], dtype)])
    assert int(got[0]) == exact.wrap(a * b, dtype)
