"""ELEMENT_WISE_THRESHOLD: max(x, min), the bound first converted to the tensor's type."""

from __future__ import annotations

from support.operators import exact
from support.operators.checks import ScaledTests
from support.operators.harness import FLOATS, INF, INTEGERS, NAN, SIGNED, UNSIGNED, case, each_dtype, refused

SHORT = SIGNED[:3] + UNSIGNED[:3]  # the integer types that THRESHOLD accepts


class TestThreshold(ScaledTests):
    operator = "threshold"
    levels = "1.0: 4D F32 F16 | 2.1: 4D ALL8 | 3.0: 1-8D ALL8"
    sample = case("two dimensions", [[[1, 2, 3], [4, 5, 6]]], [[3, 3, 3], [4, 5, 6]], min=3)
    scaled = case("2x − 1 against 3", [[0, 2, 5]], [3, 3, 9], min=3)
    cases = (
        *each_dtype(FLOATS + SHORT, "the greater", [[0, 2, 3, 100]], [2, 2, 3, 100], min=2),
        *each_dtype(FLOATS + SIGNED[:3], "a bound below zero", [[-100, -2, 0]], [-3, -2, 0], min=-3),
        *each_dtype(FLOATS, "infinities", [[-INF, 3, INF]], [-1, 3, INF], min=-1),
        *each_dtype(FLOATS, "an infinite bound", [[-INF, 3, INF]], [-INF, 3, INF], min=-INF),
        # max(NaN, min) is min, as in HLSL.
        *each_dtype(FLOATS, "NaN becomes the bound", [[NAN]], [2], min=2),
        *each_dtype(FLOATS, "a bound of NaN binds nothing", [[-7, INF]], [-7, INF], min=NAN),
        *each_dtype(SIGNED[:3], "the bound is cut toward zero", [[-9, -1, 0]], [-1, -1, 0], min=-1.9),
        *each_dtype(SHORT, "the bound is cut", [[0, 2, 3]], [2, 2, 3], min=2.9),
        *each_dtype(UNSIGNED[:3], "a bound below zero binds nothing", [[0, 1, 9]], [0, 1, 9], min=-5),
        *(
            case("beyond the type the bound is the greatest", [[1, 2]], [exact.limits(dtype)[1]] * 2, dtype, min=1e10)
            for dtype in ("int8", "int32", "uint8", "uint32", "uint16")
        ),
        # Compared as 32-bit integers: 10^6 is 15 · 2^16 + 16960.
        *each_dtype(("int16", "uint16"), "of 16 bits the low ones stay", [[1, 100]], [16960, 16960], min=1e6),
        *(
            case(
                "a bound below the type binds nothing",
                [[*exact.limits(dtype)]],
                [*exact.limits(dtype)],
                dtype,
                min=-1e10,
            )
            for dtype in SHORT
        ),
        case(
            "the bound rounds to float16",
            [[0.0]],
            [exact.rounded(exact.values([0.1], "float32")[0], "float16")],
            "float16",
            min=0.1,
        ),
        *(
            case(
                "integers are scaled as floats, then cut",
                [[1, -3, 40]],
                [1, -10, 114],
                dtype,
                min=-50,
                scale_bias={"scale": 2.9, "bias": -1.9},
            )
            for dtype in SIGNED[:3]
        ),
        case("8 bits saturate", [[1, 3, -1]], [127, 127, -50], "int8", min=-50, scale_bias={"scale": 200}),
        case("beyond float16 it is infinite", [[0.0]], [INF], "float16", min=1e6),
    )

    def test_the_bound_is_a_number(self) -> None:
        error = refused(self.operator, self.sample.inputs, min="low")
        assert (error.field, error.got) == ("min", "low")

    def test_integers_of_64_bits_are_refused(self) -> None:
        assert {"int64", "uint64"} == set(INTEGERS) - set(SHORT)
        for dtype in ("int64", "uint64"):
            error = refused(self.operator, [self.sample.inputs[0].astype(dtype)], min=0)
            assert (error.field, error.got) == ("input.dtype", dtype)
