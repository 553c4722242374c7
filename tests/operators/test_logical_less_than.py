"""ELEMENT_WISE_LOGICAL_LESS_THAN: 1 where a < b, else 0."""

from __future__ import annotations

from support.operators import exact
from support.operators.families import ComparisonTests
from support.operators.harness import FLOATS, INF, INTEGERS, NAN, SIGNED, case


class TestLogicalLessThan(ComparisonTests):
    operator = "logical_less_than"
    sample = case(
        "two dimensions", [[[1, 2, 3], [4, 5, 6]], [[2, 2, 2], [5, 5, 5]]], [[1, 0, 0], [1, 0, 0]], to="uint8"
    )
    cases = (
        *(
            case("less, equal, greater", [[1, 2, 3], [2, 2, 2]], [1, 0, 0], dtype, "uint8")
            for dtype in FLOATS + INTEGERS
        ),
        *(
            case("NaN is less than nothing", [[NAN, NAN, 1], [NAN, 1, NAN]], [0, 0, 0], dtype, "uint8")
            for dtype in FLOATS
        ),
        *(
            case(
                "infinities; no zero is less", [[-INF, 1, INF, -0.0], [1, INF, INF, 0.0]], [1, 1, 0, 0], dtype, "uint8"
            )
            for dtype in FLOATS
        ),
        *(case("negative numbers", [[-1, 0, -5], [0, -1, -4]], [1, 0, 1], dtype, "uint8") for dtype in SIGNED),
        *(
            case("extremes", [[low, high, low], [high, low, low]], [1, 0, 0], dtype, "uint8")
            for dtype in INTEGERS
            for low, high in [exact.limits(dtype)]
        ),
        case("64-bit neighbours differ", [[2**53, 2**63], [2**53 + 1, 2**63 - 1]], [1, 0], "uint64", "uint8"),
    )
