"""ELEMENT_WISE_LOGICAL_GREATER_THAN, and the comparisons OR_EQUAL: 1 where a > b, a ≥ b, a ≤ b, else 0."""

from __future__ import annotations

from typing import ClassVar

from support.operators import exact
from support.operators.families import ComparisonTests
from support.operators.harness import FLOATS, INF, INTEGERS, NAN, SIGNED, Case, case


def table(less: int, equal: int, greater: int) -> tuple[Case, ...]:
    """The rows of a comparison with these results for a < b, a = b, a > b."""
    return (
        *(
            case("less, equal, greater", [[1, 2, 3], [2, 2, 2]], [less, equal, greater], dtype, "uint8")
            for dtype in FLOATS + INTEGERS
        ),
        *(case("0 with NaN", [[NAN, NAN, 1], [NAN, 1, NAN]], [0, 0, 0], dtype, "uint8") for dtype in FLOATS),
        *(
            case(
                "infinities", [[-INF, INF, INF, -INF], [1, 1, INF, -INF]], [less, greater, equal, equal], dtype, "uint8"
            )
            for dtype in FLOATS
        ),
        *(case("the zeros are equal", [[-0.0, 0.0], [0.0, -0.0]], [equal, equal], dtype, "uint8") for dtype in FLOATS),
        *(
            case("negative numbers", [[-1, 0, -5], [0, -1, -5]], [less, greater, equal], dtype, "uint8")
            for dtype in SIGNED
        ),
        *(
            case("extremes", [[low, high, low], [high, low, low]], [less, greater, equal], dtype, "uint8")
            for dtype in INTEGERS
            for low, high in [exact.limits(dtype)]
        ),
        case("64-bit neighbours differ", [[2**53, 2**63], [2**53 + 1, 2**63 - 1]], [less, greater], "uint64", "uint8"),
        case(
            "64-bit neighbours differ",
            [[-(2**53), 2**62], [-(2**53) - 1, 2**62 + 1]],
            [greater, less],
            "int64",
            "uint8",
        ),
    )


A, B = [[1, 2, 3], [4, 5, 6]], [[2, 2, 2], [5, 5, 5]]


class TestLogicalGreaterThan(ComparisonTests):
    operator = "logical_greater_than"
    sample = case("two dimensions", [A, B], [[0, 0, 1], [0, 0, 1]], to="uint8")
    cases: ClassVar = table(0, 0, 1)


class OrEqualTests(ComparisonTests):
    levels = "3.0: 1-8D ALL8 | 4.1: 1-8D ALL10"
    output_levels = "3.0: 1-8D U32 U8"


class TestLogicalGreaterThanOrEqual(OrEqualTests):
    operator = "logical_greater_than_or_equal"
    sample = case("two dimensions", [A, B], [[0, 1, 1], [0, 1, 1]], to="uint8")
    cases: ClassVar = table(0, 1, 1)


class TestLogicalLessThanOrEqual(OrEqualTests):
    operator = "logical_less_than_or_equal"
    sample = case("two dimensions", [A, B], [[1, 1, 0], [1, 1, 0]], to="uint8")
    cases: ClassVar = table(1, 1, 0)
