"""ELEMENT_WISE_CLIP: max(min, min(x, max)), the bounds first converted to the tensor's type."""

from __future__ import annotations

from support.operators import exact
from support.operators.checks import ScaledTests
from support.operators.harness import FLOATS, INF, INTEGERS, NAN, SIGNED, UNSIGNED, case, each_dtype, refused
from support.problems import expect


class TestClip(ScaledTests):
    operator = "clip"
    levels = "1.0: 4D F32 F16 | 2.1: 4D ALL8 | 3.0: 1-8D ALL8 | 5.0: 1-8D ALL10"
    sample = case("two dimensions", [[[1, 2, 3], [4, 5, 6]]], [[2, 2, 3], [4, 5, 5]], min=2, max=5)
    scaled = case("2x − 1 is clipped", [[0, 2, 5]], [0, 3, 4], min=0, max=4)
    cases = (
        *each_dtype(FLOATS + INTEGERS, "into [2, 5]", [[0, 2, 3, 5, 100]], [2, 2, 3, 5, 5], min=2, max=5),
        *each_dtype(SIGNED + FLOATS, "into [−3, −1]", [[-100, -2, 0]], [-3, -2, -1], min=-3, max=-1),
        *each_dtype(FLOATS + INTEGERS, "min wins where it exceeds max", [[0, 3, 9]], [7, 7, 7], min=7, max=2),
        case("infinite bounds bind nothing", [[-INF, 3, INF]], [-INF, 3, INF], min=-INF, max=INF),
        case("bounds of float16 are finite", [[-INF, 3, INF]], [-65504, 3, 65504], "float16", min=-INF, max=1e6),
        *each_dtype(FLOATS, "±∞ become the bounds", [[-INF, INF]], [-1, 1], min=-1, max=1),
        # min(NaN, max) is max, as in HLSL; no source states it.
        *each_dtype(FLOATS, "NaN becomes max", [[NAN]], [1], min=-1, max=1),
        *each_dtype(SIGNED, "bounds are cut toward zero", [[-9, -1, 0, 1, 9]], [-1, -1, 0, 1, 2], min=-1.9, max=2.9),
        *each_dtype(UNSIGNED, "bounds below zero are zero", [[0, 1, 9]], [0, 0, 0], min=-5, max=-0.5),
        *(
            case(
                "bounds beyond the type bind nothing",
                [[*exact.limits(dtype)]],
                [*exact.limits(dtype)],
                dtype,
                min=-1e30,
                max=1e30,
            )
            for dtype in INTEGERS
        ),
        case(
            "bounds round to float16",
            [[0.0]],
            [exact.rounded(exact.values([0.1], "float32")[0], "float16")],
            "float16",
            min=0.1,
            max=1,
        ),
    )

    def test_bounds_are_numbers(self) -> None:
        error = refused(self.operator, self.sample.inputs, min="low", max=5)
        assert (error.field, error.got) == ("min", "low")
        error = refused(self.operator, self.sample.inputs, min=0, max=1e39)
        expect(error, "does-not-fit", node="node", field="max", got=1e39)
