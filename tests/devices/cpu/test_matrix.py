"""Matrix products of the CPU executor equal the reference's, in float32."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cpu.near import check_exact, check_near, desc, filled, layouts, make, run, seeds

sizes = st.integers(1, 7)
batches = st.sampled_from([(), (1,), (3,), (2, 3), (2, 1)])


class TestGemm:
    @given(
        batches, sizes, sizes, sizes, st.booleans(), st.booleans(), st.booleans(), layouts, seeds,
        st.sampled_from(["float32", "float16"]),
    )  # fmt: skip
    def test_is_near_the_reference(self, batch, m, k, n, trans_a, trans_b, c, layout, seed, dtype) -> None:
        operator = make(
            "gemm",
            a=desc((*batch, *((k, m) if trans_a else (m, k))), dtype),
            b=desc((*batch, *((n, k) if trans_b else (k, n))), dtype),
            c=desc((*batch, m, n), dtype) if c else None,
            trans_a="transpose" if trans_a else "none",
            trans_b="transpose" if trans_b else "none",
            alpha=0.75,
            beta=1.5,
        )
        check_near(operator, filled(operator, seed, layout), k + 1)

    @given(st.sampled_from(["relu", "sigmoid", "tanh", "leaky_relu", "identity", "elu", "softplus"]), seeds)
    def test_an_activation_follows(self, activation, seed) -> None:
        name = f"activation_{activation}"
        operator = make("gemm", a=desc((3, 5)), b=desc((5, 4)), fused_activation=name)
        arrays = filled(operator, seed)
        # No slope exceeds 1; each function may add an error of 4 units in the last place.
        (magnitudes,) = make("gemm", a=desc((3, 5)), b=desc((5, 4))).evaluate(
            *(x if x is None else abs(x) for x in arrays)
        )
        check_near(operator, arrays, 5 + 8, magnitudes + 1)

    def test_a_large_one(self) -> None:
        operator = make("gemm", a=desc((2, 300, 700)), b=desc((700, 500)))
        arrays = filled(operator, 1)
        check_near(operator, arrays, 700)

    @given(seeds)
    def test_a_softmax_follows(self, seed) -> None:
        operator = make("gemm", a=desc((3, 5)), b=desc((5, 4)), fused_activation="activation_softmax")
        (got,) = run(operator, *filled(operator, seed))
        np.testing.assert_allclose(got, operator.evaluate(*filled(operator, seed))[0], rtol=1e-4, atol=1e-6)

    def test_batches_that_repeat(self) -> None:
        a, b = np.ones((4, 2, 3), np.float32), np.broadcast_to(np.ones((3, 5), np.float32), (4, 3, 5))
        (result,) = run(make("gemm", a=desc((4, 2, 3)), b=desc((4, 3, 5))), a, b, None)
        np.testing.assert_array_equal(result, np.full((4, 2, 5), 3))


class TestIntegers:
    @given(sizes, st.integers(1, 40), sizes, st.sampled_from(["uint8", "int8"]), st.booleans(), layouts, seeds)
    def test_sums_are_exact(self, m, k, n, dtype, zeros, layout, seed) -> None:
        operator = make(
            "matrix_multiply_integer",
            a=desc((2, m, k), dtype),
            a_zero_point=desc((m,), dtype) if zeros else None,
            b=desc((k, n), "int8"),
            b_zero_point=desc((n,), "int8") if zeros else None,
        )
        check_exact(operator, filled(operator, seed, layout))

    @pytest.mark.parametrize("inner", [258, 259, 1000, 40000])
    def test_sums_that_float32_cannot_hold_are_exact(self, inner) -> None:
        # 255² · 259 is the first sum beyond 2^24, 255² · 33026 is beyond 2^31 and wraps.
        operator = make("matrix_multiply_integer", a=desc((1, inner), "uint8"), b=desc((inner, 1), "uint8"))
        a, b = np.full((1, inner), 255, np.uint8), np.full((inner, 1), 255, np.uint8)
        b[0] = 254
        expected = (255 * 255 * inner - 255 + 2**31) % 2**32 - 2**31
        assert run(operator, a, None, b, None)[0].item() == expected

    @given(sizes, st.integers(1, 40), sizes, st.booleans(), st.sampled_from(["uint8", "int8"]), layouts, seeds)
    def test_quantized(self, m, k, n, zeros, dtype, layout, seed) -> None:
        operator = make(
            "quantized_linear_matrix_multiply",
            a=desc((m, k), "uint8"),
            a_scale=desc((m,)),
            a_zero_point=desc((m,), "uint8") if zeros else None,
            b=desc((k, n), "int8"),
            b_scale=desc((n,)),
            b_zero_point=desc((n,), "int8") if zeros else None,
            output_scale=desc((1,)),
            output_zero_point=desc((1,), dtype) if zeros else None,
        )
        arrays = filled(operator, seed, layout)
        arrays[-2] = np.full_like(arrays[-2], 64)  # so that most results are within the range
        check_exact(operator, arrays)

    def test_quantized_extremes_are_clamped(self) -> None:
        operator = make(
            "quantized_linear_matrix_multiply",
            a=desc((1, 1), "uint8"),
            a_scale=desc((1,)),
            b=desc((1, 5), "int8"),
            b_scale=desc((5,)),
            output_scale=desc((1,)),
        )
        a, b = np.full((1, 1), 1, np.uint8), np.full((1, 5), 1, np.int8)
        scales = np.array([[np.inf, -np.inf, np.nan, 3e9, 2.5]], np.float32)
        one = np.ones((1, 1), np.float32)
        (result,) = run(operator, a, one, None, b, scales, None, one, None)
        assert result.tolist() == [[255, 0, 0, 255, 2]]

    @given(sizes, st.integers(1, 20), sizes, st.sampled_from(["uint8", "int32"]), st.booleans(), layouts, seeds)
    def test_to_float(self, m, k, n, dtype, bias, layout, seed) -> None:
        operator = make(
            "matrix_multiply_integer_to_float",
            a=desc((m, k), dtype),
            a_scale=desc((m,)),
            b=desc((k, n), dtype),
            b_scale=desc((1,)),
            bias=desc((n,)) if bias else None,
        )
        check_near(operator, filled(operator, seed, layout), k + 1)
