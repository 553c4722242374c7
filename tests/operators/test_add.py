"""ELEMENT_WISE_ADD: a + b, element by element."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from support.operators import exact
from support.operators.checks import BinaryTests
from support.operators.harness import FLOATS, INF, INTEGERS, NAN, case, each_dtype, run


class TestAdd(BinaryTests):
    operator = "add"
    levels = (
        "1.0: 4-5D F32 F16 | 2.1: 4-5D F32 F16 I32 U32 | 3.0: 1-8D F32 F16 I32 U32"
        " | 4.1: 1-8D F32 F16 I64 I32 U64 U32 | 5.1: 1-8D ALL10"
    )
    sample = case(
        "two dimensions", [[[1, 2, 3], [4, 5, 6]], [[10, 20, 30], [40, 50, 60]]], [[11, 22, 33], [44, 55, 66]]
    )
    cases = (
        *each_dtype(FLOATS + INTEGERS, "sums", [[1, 2, 3], [4, 5, 6]], [5, 7, 9]),
        *each_dtype(FLOATS, "infinities and NaN", [[INF, INF, -INF, NAN], [1, -INF, -INF, 1]], [INF, NAN, -INF, NAN]),
        *each_dtype(FLOATS, "zeros keep their sign", [[-0.0, -0.0, 0.0], [-0.0, 0.0, 0.0]], [-0.0, 0.0, 0.0]),
        *(
            case(
                "wraps modulo 2^N at both ends",
                [[exact.limits(dtype)[1], exact.limits(dtype)[0]], [1, exact.limits(dtype)[1]]],
                [exact.limits(dtype)[0], exact.wrap(sum(exact.limits(dtype)), dtype)],
                dtype,
            )
            for dtype in INTEGERS
        ),
        case("beyond the greatest float16 is infinity", [[65504.0, 65504.0], [15.0, 16.0]], [65504.0, INF], "float16"),
        case("2^24 + 1 rounds to even", [[2.0**24, 2.0**24], [1, 3]], [2.0**24, 2.0**24 + 4]),
        case("2048 + 1 rounds to even", [[2048.0, 2048.0], [1, 3]], [2048.0, 2052.0], "float16"),
        case("subnormal numbers stay", [[2.0**-149], [2.0**-149]], [2.0**-148]),
    )


@given(arrays.mutually_broadcastable_shapes(num_shapes=2, min_dims=1, max_dims=5, max_side=4))
def test_sizes_broadcast_as_numpy_has_it(shapes: arrays.BroadcastableShapes) -> None:
    a, b = (
        np.arange(np.prod(shape), dtype=np.int32).reshape(shape) * factor
        for shape, factor in zip(shapes.input_shapes, (1, 1000), strict=True)
    )
    got = run("add", [a, b])
    assert got.shape == shapes.result_shape
    for index, (one, other) in enumerate(np.broadcast(a, b)):
        assert got.flat[index] == int(one) + int(other)


@given(st.data(), st.sampled_from(INTEGERS))
def test_integers_add_modulo_2_to_the_n(data: st.DataObject, dtype: str) -> None:
    numbers = st.integers(*exact.limits(dtype))
    a, b = data.draw(numbers), data.draw(numbers)
    got = run("add", [np.array([a], dtype), np.array([b], dtype)])
    assert int(got[0]) == exact.wrap(a + b, dtype)
