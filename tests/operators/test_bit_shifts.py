"""ELEMENT_WISE_BIT_SHIFT_LEFT and ELEMENT_WISE_BIT_SHIFT_RIGHT: a · 2^b modulo 2^N, and ⌊a / 2^b⌋."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from support.operators import exact
from support.operators.checks import BinaryTests
from support.operators.harness import UNSIGNED, array, case, each_dtype, run

from dmlgraph.base.tensor import DataTypeName

WIDTHS = {dtype: int(dtype.lstrip("uint")) for dtype in UNSIGNED}
HIGH, LOW = 0x80000000_00000000, 0x00000000_00000005


class ShiftTests(BinaryTests):
    levels = "2.1: 4D U32 U16 U8 | 3.0: 1-8D U32 U16 U8 | 4.1: 1-8D U64 U32 U16 U8"


class TestBitShiftLeft(ShiftTests):
    operator = "bit_shift_left"
    sample = case(
        "two dimensions", [[[1, 2, 3], [4, 5, 6]], [[0, 1, 2], [3, 4, 5]]], [[1, 4, 12], [32, 80, 192]], "uint8"
    )
    cases = (
        *each_dtype(UNSIGNED, "multiplies by 2^b", [[1, 3, 5, 0], [6, 5, 0, 7]], [64, 96, 5, 0]),
        *(
            case("bits leave at the top", [[2**width - 1, 3], [1, width - 1]], [2**width - 2, 2 ** (width - 1)], dtype)
            for dtype, width in WIDTHS.items()
        ),
        *each_dtype(("uint8", "uint16"), "all of them", [[3, 255, 3], [16, 20, 31]], [0, 0, 0]),
        *each_dtype(("uint8", "uint16", "uint32"), "32 counts as 0", [[3, 3, 3], [32, 33, 100]], [3, 6, 48]),
        case("across the words", [[LOW, LOW, 2**31], [32, 63, 1]], [LOW << 32, HIGH, 2**32], "uint64"),
        # From 32 on, the low word is shifted into the high one by the lowest 5 bits of b.
        case(
            "64 counts as 32", [[HIGH + LOW] * 4, [64, 65, 96, 127]], [LOW << 32, LOW << 33, LOW << 32, HIGH], "uint64"
        ),
        case(
            "of b the low word counts", [[LOW] * 3, [2**32, 2**32 + 1, 2**63 + 40]], [LOW, 2 * LOW, LOW << 40], "uint64"
        ),
    )


class TestBitShiftRight(ShiftTests):
    operator = "bit_shift_right"
    sample = case(
        "two dimensions", [[[1, 2, 12], [40, 80, 255]], [[0, 1, 2], [3, 4, 5]]], [[1, 1, 3], [5, 5, 7]], "uint8"
    )
    cases = (
        *each_dtype(UNSIGNED, "divides by 2^b, cut", [[64, 100, 5, 0], [6, 5, 0, 7]], [1, 3, 5, 0]),
        *(
            case("zeros move in", [[2**width - 1, 2 ** (width - 1)], [1, width - 1]], [2 ** (width - 1) - 1, 1], dtype)
            for dtype, width in WIDTHS.items()
        ),
        *each_dtype(("uint8", "uint16"), "all of them", [[3, 255, 255], [16, 20, 31]], [0, 0, 0]),
        *each_dtype(("uint8", "uint16", "uint32"), "32 counts as 0", [[48, 48, 48], [32, 33, 100]], [48, 24, 3]),
        case("across the words", [[LOW << 32, HIGH, 2**32], [32, 63, 1]], [LOW, 1, 2**31], "uint64"),
        case("64 counts as 32", [[HIGH + LOW] * 4, [64, 65, 96, 127]], [2**31, 2**30, 2**31, 1], "uint64"),
        case(
            "of b the low word counts",
            [[HIGH] * 3, [2**32, 2**32 + 1, 2**63 + 40]],
            [HIGH, HIGH >> 1, HIGH >> 40],
            "uint64",
        ),
    )


@given(st.data(), st.sampled_from(UNSIGNED))
def test_shifts_within_the_width_are_those_of_whole_numbers(data: st.DataObject, dtype: DataTypeName) -> None:
    a = data.draw(st.integers(0, 2 ** WIDTHS[dtype] - 1))
    b = data.draw(st.integers(0, WIDTHS[dtype] - 1))
    inputs = [array([a], dtype), array([b], dtype)]
    assert int(run("bit_shift_left", inputs)[0]) == exact.wrap(a << b, dtype)
    assert int(run("bit_shift_right", inputs)[0]) == a >> b
