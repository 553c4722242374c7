"""ELEMENT_WISE_ROUND: x as a whole number."""

from __future__ import annotations

from support.operators.checks import UnaryTests
from support.operators.harness import FLOATS, INF, NAN, case, each_dtype, refused

HALVES = [0.5, 1.5, 2.5, -0.5, -1.5, -2.5]
OTHERS = [1.25, 1.75, -1.25, -1.75, 7]
AWAY = {"rounding_mode": "toward_infinity"}
CUT = {"rounding_mode": "toward_zero"}


class TestRound(UnaryTests):
    operator = "round"
    levels = "2.1: 4D F32 F16 | 3.0: 1-8D F32 F16"
    sample = case("two dimensions", [[[1.5, 2.5, -3.5], [0.25, 5, 6.75]]], [[2, 2, -4], [0, 5, 7]])
    cases = (
        *each_dtype(FLOATS, "halves to the even one", [HALVES], [0.0, 2, 2, -0.0, -2, -2]),
        *each_dtype(FLOATS, "halves away from zero", [HALVES], [1, 2, 3, -1, -2, -3], **AWAY),
        *each_dtype(FLOATS, "cut", [HALVES], [0.0, 1, 2, -0.0, -1, -2], **CUT),
        *each_dtype(FLOATS, "to the nearest", [OTHERS], [1, 2, -1, -2, 7]),
        *each_dtype(FLOATS, "to the nearest", [OTHERS], [1, 2, -1, -2, 7], **AWAY),
        *each_dtype(FLOATS, "cut whatever is left", [OTHERS], [1, 1, -1, -1, 7], **CUT),
        *(
            row
            for mode in ("halves_to_nearest_even", "toward_zero", "toward_infinity")
            for row in each_dtype(
                FLOATS, f"special values {mode}", [[0.0, INF, -INF, NAN]], [0.0, INF, -INF, NAN], rounding_mode=mode
            )
        ),
        *each_dtype(FLOATS, "−0 stays", [[-0.0]], [-0.0]),
        *each_dtype(FLOATS, "−0 stays", [[-0.0]], [-0.0], **CUT),
        *each_dtype(FLOATS, "sign(−0) · ⌊½⌋ is 0", [[-0.0]], [0.0], **AWAY),
        # |x| + ½ is rounded to float32 before it is truncated.
        case("just below a half", [[0.5 - 2.0**-25, 2.0**-25 - 0.5]], [0.0, -0.0]),
        case("just below a half, + ½ rounds to 1", [[0.5 - 2.0**-25, 2.0**-25 - 0.5]], [1, -1], **AWAY),
        case(
            "odd numbers from 2^23 on, + ½ rounds to even",
            [[2.0**23 + 1, 2.0**23 - 1]],
            [2.0**23 + 2, 2.0**23 - 1],
            **AWAY,
        ),
        case("just below a half, + ½ is exact", [[0.5 - 2.0**-12]], [0.0], "float16", **AWAY),
        case("2^23 + 1 is whole", [[2.0**23 + 1]], [2.0**23 + 1]),
    )

    def test_other_modes_are_refused(self) -> None:
        error = refused("round", self.sample.inputs, rounding_mode="toward_zer")
        assert (error.field, error.got) == ("rounding_mode", "toward_zer")
        assert error.hint == "did you mean 'toward_zero'?"
