"""ELEMENT_WISE_MEAN: (a + b) / 2; the sum of integers wraps."""

from __future__ import annotations

from support.operators import exact
from support.operators.checks import BinaryTests
from support.operators.harness import FLOATS, INF, NAN, case, each_dtype


class TestMean(BinaryTests):
    operator = "mean"
    levels = "1.0: 4D F32 F16 | 2.1: 4D F32 F16 I32 U32 | 3.0: 1-8D F32 F16 I32 U32"
    sample = case("two dimensions", [[[1, 2, 3], [4, 5, 6]], [[2, 4, 3], [0, 7, 16]]], [[1.5, 3, 3], [2, 6, 11]])
    cases = (
        *each_dtype((*FLOATS, "int32", "uint32"), "even sums", [[1, 4, 100], [3, 0, 100]], [2, 2, 100]),
        *each_dtype(("int32", "uint32"), "cuts the half", [[1, 4, 0], [2, 5, 1]], [1, 4, 0]),
        case("cuts toward zero", [[-1, -4, 3], [0, -5, -4]], [0, -4, 0], "int32"),
        *(
            case(
                "the sum wraps",
                [[high, high, low], [1, high, low]],
                [exact.limits(dtype)[0] // 2, exact.wrap(2 * high, dtype) // 2, exact.wrap(2 * low, dtype) // 2],
                dtype,
            )
            for dtype in ("int32", "uint32")
            for low, high in [exact.limits(dtype)]
        ),
        *each_dtype(FLOATS, "infinities and NaN", [[INF, INF, -INF, NAN], [1, -INF, -INF, 1]], [INF, NAN, -INF, NAN]),
        *each_dtype(FLOATS, "zeros", [[-0.0, -0.0], [-0.0, 0.0]], [-0.0, 0.0]),
        # DirectML does this for tensors of an even number of elements; others are computed in float16.
        case("float16 sums are wider", [[65504.0, 65504.0], [16.0, 100.0]], [32768.0, 32800.0], "float16"),
        case("the float32 sum overflows", [[3e38], [3e38]], [INF]),
        case("2^24 + 1 rounds to even", [[2.0**24], [1]], [2.0**23]),
    )
