"""ELEMENT_WISE_IS_NAN: 1 where x is NaN, else 0."""

from __future__ import annotations

from typing import ClassVar

from support.operators import exact
from support.operators.families import RetypedTests
from support.operators.harness import FLOATS, INF, NAN, case


class TestIsNan(RetypedTests):
    operator = "is_nan"
    levels = "2.0: 4D F32 F16 | 3.0: 1-8D F32 F16"
    output_levels = "2.0: 4D U32 U8 | 3.0: 1-8D U32 U8"
    sample = case("two dimensions", [[[1, NAN, 3], [NAN, NAN, 6]]], [[0, 1, 0], [1, 1, 0]], to="uint8")
    cases: ClassVar = (
        *(case("NaN or not", [[NAN, 0.0, -0.0, 1, INF, -INF]], [1, 0, 0, 0, 0, 0], dtype, "uint8") for dtype in FLOATS),
        case(
            "every NaN",
            [exact.from_bits("float32", 0x7FC00001, 0xFFFFFFFF, 0x7F800001, 0x7F800000)],
            [1, 1, 1, 0],
            to="uint8",
        ),
        case(
            "every NaN", [exact.from_bits("float16", 0x7E01, 0xFFFF, 0x7C01, 0x7C00)], [1, 1, 1, 0], "float16", "uint8"
        ),
        case("1 in uint32", [[NAN, 1]], [1, 0], to="uint32", dtype="uint32"),
    )
