"""Top-k and one-hot on the device `cpu`: the same elements and indices as on `reference`, without Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cpu.near import check_exact, desc, filled, layouts, make, run, seeds

from dmlgraph.devices.cpu.nodes import Native
from dmlgraph.devices.cpu.plan import lowered

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
DTYPES = ["float32", "float16", *INTEGERS]


class TestTop:
    @given(
        st.lists(st.integers(1, 9), min_size=4, max_size=5), st.integers(0, 3), st.integers(1, 9),
        st.sampled_from(["increasing", "decreasing"]), st.sampled_from(DTYPES), layouts, seeds,
    )  # fmt: skip
    def test_equals_the_reference(self, sizes, axis, k, direction, dtype, layout, seed) -> None:
        operator = make(
            "top_k1", input=desc(tuple(sizes), dtype), axis=axis, k=min(k, sizes[axis]), axis_direction=direction
        )
        assert isinstance(lowered(operator), Native)
        check_exact(
            operator, [np.rint(each) if each.dtype.kind == "f" else each for each in filled(operator, seed, layout)]
        )

    def test_a_long_axis_on_several_threads(self) -> None:
        operator = make("top_k", input=desc((1, 3, 5000, 4)), axis=2, k=70)
        (x,) = filled(operator, 1)
        expected = operator.evaluate(x)
        for threads in (1, 2, 3):
            for got, each in zip(run(operator, x, threads=threads), expected, strict=True):
                np.testing.assert_array_equal(got, each)

    @pytest.mark.parametrize("k", [1, 3, 16, 17, 90, 700])
    @pytest.mark.parametrize("direction", ["increasing", "decreasing"])
    @pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "int32", "uint64"])
    def test_long_lines_of_few_numbers(self, dtype, direction, k) -> None:
        """Many elements are equal, and the numbers rise, fall or have no order."""
        random = np.random.default_rng(k)
        x = np.stack([random.integers(0, 99, 700), np.arange(700) // 9, 80 - np.arange(700) // 9]).astype(dtype)
        if x.dtype.kind == "f":
            x[random.random(x.shape) < 0.02] = np.nan
        operator = make("top_k1", input=desc((1, 1, 3, 700), dtype), axis=3, k=k, axis_direction=direction)
        check_exact(operator, [x.reshape(1, 1, 3, 700)])

    @pytest.mark.parametrize("dtype", ["float32", "float16"])
    @pytest.mark.parametrize(
        ("direction", "order"), [("increasing", [2, 1, 4, 6, 5, 0, 3]), ("decreasing", [0, 3, 5, 6, 1, 4, 2])]
    )
    def test_special_numbers(self, dtype, direction, order) -> None:
        """NaNs are beyond infinity, and zeros of both signs are equal."""
        x = np.array([np.nan, 0.0, -np.inf, np.nan, -0.0, np.inf, 5e-7], dtype).reshape(1, 1, 1, 7)
        operator = make("top_k1", input=desc(x.shape, dtype), axis=3, k=7, axis_direction=direction)
        _, index = run(operator, x)
        np.testing.assert_array_equal(index.ravel(), order)
        check_exact(operator, [x])

    def test_indices_of_64_bits(self) -> None:
        operator = make("top_k1", input=desc((1, 1, 2, 5)), axis=3, k=2, output_index={"dtype": "uint64"})
        check_exact(operator, filled(operator, 4))


class TestOneHot:
    @given(
        st.sampled_from(["int32", "int64", "uint32", "uint64"]), st.sampled_from(DTYPES),
        st.lists(st.integers(1, 5), min_size=4, max_size=4), st.integers(0, 3), st.integers(1, 9), seeds,
    )  # fmt: skip
    def test_equals_the_reference(self, index_type, dtype, sizes, axis, depth, seed) -> None:
        sizes[axis] = 1
        whole = (*sizes[:axis], depth, *sizes[axis + 1 :])
        operator: Any = make(
            "one_hot", indices=desc(tuple(sizes), index_type), values=desc((1, 1, 1, 2), dtype), axis=axis,
            output={"sizes": whole},
        )  # fmt: skip
        assert isinstance(lowered(operator), tuple)
        random = np.random.default_rng(seed)
        low = 0 if index_type.startswith("u") else -depth - 2
        indices = random.integers(low, depth + 2, sizes).astype(index_type)
        values = random.integers(0, 9, (1, 1, 1, 2)).astype(dtype)
        check_exact(operator, [indices, values])
