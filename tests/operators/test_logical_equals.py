"""ELEMENT_WISE_LOGICAL_EQUALS: 1 where a = b, else 0."""

from __future__ import annotations

from support.operators import exact
from support.operators.families import ComparisonTests
from support.operators.harness import FLOATS, INF, INTEGERS, NAN, case


class TestLogicalEquals(ComparisonTests):
    operator = "logical_equals"
    sample = case(
        "two dimensions", [[[1, 2, 3], [4, 5, 6]], [[1, 0, 3], [0, 5, 0]]], [[1, 0, 1], [0, 1, 0]], to="uint8"
    )
    cases = (
        *(case("equal or not", [[1, 2, 3], [1, 3, 3]], [1, 0, 1], dtype, "uint8") for dtype in FLOATS + INTEGERS),
        *(case("NaN equals nothing", [[NAN, NAN, 1], [NAN, 1, NAN]], [0, 0, 0], dtype, "uint8") for dtype in FLOATS),
        *(
            case("infinities; the zeros are equal", [[INF, -INF, 0.0], [INF, INF, -0.0]], [1, 0, 1], dtype, "uint8")
            for dtype in FLOATS
        ),
        *(
            case("extremes", [[low, low, high], [low, high, high]], [1, 0, 1], dtype, "uint8")
            for dtype in INTEGERS
            for low, high in [exact.limits(dtype)]
        ),
        case("64-bit neighbours differ", [[2**53, 2**64 - 1], [2**53 + 1, 2**64 - 2]], [0, 0], "uint64", "uint8"),
        case("−1 is not 255", [[-1], [1]], [0], "int8", "uint8"),
    )
