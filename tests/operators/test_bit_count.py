"""ELEMENT_WISE_BIT_COUNT: how many bits of each element are set, in every type."""

from __future__ import annotations

from typing import ClassVar

from hypothesis import given
from hypothesis import strategies as st
from support.operators import exact
from support.operators.families import RetypedTests
from support.operators.harness import INTEGERS, NAN, SIGNED, UNSIGNED, array, case, run

from dmlgraph.base.tensor import DataTypeName

WIDTHS = {dtype: int(dtype.lstrip("uint")) for dtype in INTEGERS}


class TestBitCount(RetypedTests):
    operator = "bit_count"
    levels = "3.0: 1-8D U32 U16 U8 | 4.1: 1-8D ALL11"
    output_levels = "3.0: 1-8D U32 U8"
    input_dtype = "uint32"
    sample = case("two dimensions", [[[0, 1, 2], [3, 255, 128]]], [[0, 1, 1], [2, 8, 1]], "uint32", "uint8")
    cases: ClassVar = (
        *(case("small numbers", [[0, 1, 2, 3, 7, 100]], [0, 1, 1, 2, 3, 3], dtype, "uint8") for dtype in INTEGERS),
        *(case("all bits", [[-1, -2]], [WIDTHS[dtype], WIDTHS[dtype] - 1], dtype, "uint8") for dtype in SIGNED),
        *(
            case("all bits", [[2 ** WIDTHS[dtype] - 1, 2 ** (WIDTHS[dtype] - 1)]], [WIDTHS[dtype], 1], dtype, "uint8")
            for dtype in UNSIGNED
        ),
        case("the bits of floats", [[0.0, -0.0, 1, -2]], [0, 1, 7, 2], "float32", "uint8"),
        case("the bits of floats", [[0.0, -0.0, 1, -2]], [0, 1, 4, 2], "float16", "uint8"),
        case("the bits of floats", [[0.0, -0.0, 1, -2]], [0, 1, 10, 2], "float64", "uint8"),
        case("the bits of NaN", [[NAN]], [9], "float32", "uint8"),
        case("64 in uint32", [[2**64 - 1]], [64], "uint64", "uint32", dtype="uint32"),
    )


@given(st.data(), st.sampled_from(INTEGERS))
def test_counts_the_ones_of_the_binary_number(data: st.DataObject, dtype: DataTypeName) -> None:
    number = data.draw(st.integers(*exact.limits(dtype)))
    assert int(run("bit_count", [array([number], dtype)])[0]) == bin(number % 2 ** WIDTHS[dtype]).count("1")
