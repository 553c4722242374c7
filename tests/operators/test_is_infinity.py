"""ELEMENT_WISE_IS_INFINITY: 1 where x is infinite, with any sign or the requested one, else 0."""

from __future__ import annotations

from typing import ClassVar

from support.operators.families import RetypedTests
from support.operators.harness import FLOATS, INF, NAN, case, refused

NUMBERS = [INF, -INF, NAN, 0.0, 1, -65504]


class TestIsInfinity(RetypedTests):
    operator = "is_infinity"
    levels = "2.1: 4D F32 F16 | 3.0: 1-8D F32 F16"
    output_levels = "2.1: 4D U8 | 3.0: 1-8D U8"
    sample = case("two dimensions", [[[1, INF, 3], [-INF, NAN, 6]]], [[0, 1, 0], [1, 0, 0]], to="uint8")
    cases: ClassVar = tuple(
        case(f"infinite {mode or 'unless asked'}", [NUMBERS], [*gives, 0, 0, 0, 0], dtype, "uint8", **fields)
        for dtype in FLOATS
        for mode, gives in (("", [1, 1]), ("either", [1, 1]), ("positive", [1, 0]), ("negative", [0, 1]))
        for fields in [{"infinity_mode": mode} if mode else {}]
    )

    def test_other_modes_are_refused(self) -> None:
        error = refused("is_infinity", self.sample.inputs, infinity_mode="positiv")
        assert (error.field, error.got) == ("infinity_mode", "positiv")
        assert error.hint == "did you mean 'positive'?"
