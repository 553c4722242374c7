"""ELEMENT_WISE_CONSTANT_POW: x ^ exponent; the exponent is one number.

DirectML computes 2 ^ (exponent · log2 |x|), and gives the results of this formula for zero and infinity.
"""

from __future__ import annotations

from typing import Any, ClassVar

from support.operators import exact
from support.operators.checks import ScaledTests
from support.operators.harness import FLOATS, INF, NAN, case, each_dtype, refused, rounded_cases
from support.problems import expect


def powers(why: str, exponent: float, numbers: list[float]) -> list[Any]:
    return rounded_cases(
        why, lambda x: exact.power(x, exact.values([exponent], "float32")[0]), numbers, exponent=exponent
    )


class TestConstantPow(ScaledTests):
    operator = "constant_pow"
    levels = "1.0: 4D F32 F16 | 3.0: 1-8D F32 F16"
    ulp: ClassVar = {"directml:software": 16}
    sample = case("two dimensions", [[[1, 2, 0.5], [4, 8, -2]]], [[1, 8, 0.125], [64, 512, -8]], exponent=3)
    scaled = case("(2x − 1)²", [[1.5, 0.5, 0]], [4, 0.0, 1], exponent=2)
    cases = (
        *each_dtype(FLOATS, "squares", [[2, -4, 0.5, 1]], [4, 16, 0.25, 1], exponent=2),
        *each_dtype(FLOATS, "odd powers keep the sign", [[2, -2, -1]], [8, -8, -1], exponent=3),
        *each_dtype(FLOATS, "inverses", [[2, -2, 0.25]], [0.5, -0.5, 4], exponent=-1),
        *each_dtype(FLOATS, "roots, NaN below zero", [[4, 0.25, -4, -INF]], [2, 0.5, NAN, NAN], exponent=0.5),
        *each_dtype(FLOATS, "to the power of 0", [[2, -2, 0.5]], [1, 1, 1], exponent=0),
        *each_dtype(FLOATS, "0 · ∞ is NaN", [[0.0, -0.0, INF, -INF, NAN]], [NAN] * 5, exponent=0),
        *each_dtype(FLOATS, "zero", [[0.0, -0.0]], [0.0, 0.0], exponent=3),
        *each_dtype(FLOATS, "the inverse of zero", [[0.0, -0.0]], [INF, INF], exponent=-1),
        *each_dtype(FLOATS, "infinities", [[INF, -INF, NAN]], [INF, -INF, NAN], exponent=3),
        *each_dtype(FLOATS, "inverses of infinities", [[INF, -INF]], [0.0, -0.0], exponent=-1),
        *each_dtype(FLOATS, "to the power of ∞", [[2, 0.5, 1, -2, 0.0]], [INF, 0.0, NAN, NAN, 0.0], exponent=INF),
        *each_dtype(FLOATS, "to the power of NaN", [[2, 1, -1]], [NAN] * 3, exponent=NAN),
        *powers("to the last bit", 1.5, [2, 3, 0.1, 10]),
        *powers("to the last bit", -0.3, [2, 3, 0.1, 10]),
        *powers("to the last bit", 7, [1.1, 3, 0.7]),
        case("overflows to infinity", [[16, 256, -256]], [4096, INF, -INF], "float16", exponent=3),
    )

    def test_the_exponent_is_a_number(self) -> None:
        error = refused(self.operator, self.sample.inputs, exponent="two")
        assert (error.field, error.got) == ("exponent", "two")
        error = refused(self.operator, self.sample.inputs, exponent=1e39)
        expect(error, "does-not-fit", node="node", field="exponent", got=1e39)
