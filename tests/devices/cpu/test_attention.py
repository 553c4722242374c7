"""Attention of the CPU executor equals the reference's, in float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from near import desc, filled, layouts, make, run, seeds

from dmlgraph.devices.cpu import attention

floats = st.sampled_from(["float32", "float16"])
counts = st.integers(1, 4)


def check(operator: Any, arrays: list[Any], greatest_score: float) -> None:
    """The weights have the error of the scores: some units in the last place of their greatest term."""
    relative = 1e-6 * (1 + greatest_score) + (2e-3 if operator.output.dtype.numpy == np.float16 else 0)
    for got, expected in zip(run(operator, *arrays), operator.evaluate(*arrays), strict=True):
        assert np.isfinite(expected).all()
        np.testing.assert_allclose(got, expected, rtol=relative, atol=relative * np.abs(expected).max())


def made(batch: int, queries: int, keys: int, heads: int, dtype: str = "float32", **more: Any) -> Any:
    size, value_size = 8, 6
    fields = {
        "query": desc((batch, queries, heads * size), dtype),
        "key": desc((batch, keys, heads * size), dtype),
        "value": desc((batch, keys, heads * value_size), dtype),
        "scale": 0.25,
        "mask_filter_value": -1000,
        "head_count": heads,
        "mask_type": "none",
    }
    return make("multihead_attention", **fields | more)


class TestAttention:
    @given(counts, counts, counts, counts, floats, st.booleans(), st.booleans(), layouts, seeds)
    def test_is_near_the_reference(self, batch, queries, keys, heads, dtype, past, position, layout, seed) -> None:
        operator = made(
            batch,
            queries,
            keys,
            heads,
            dtype,
            bias=desc((heads * 22,), dtype),
            past_key=desc((batch, heads, 3, 8), dtype) if past else None,
            past_value=desc((batch, heads, 3, 6), dtype) if past else None,
            relative_position_bias=desc((1, heads, 1, 3 * past + keys), dtype) if position else None,
            output_present_key=True,
            output_present_value=True,
        )
        check(operator, filled(operator, seed, layout), 2000)

    @pytest.mark.parametrize(
        ("kind", "mask"),
        [
            ("boolean", np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5) % 3 % 2),
            ("key_sequence_length", [[2, 5]]),
            ("key_sequence_end_start", [[2, 5], [1, 0]]),
            ("key_query_sequence_length_start_end", [5, 4, 0, 4, 8, 0, 5, 10]),
        ],
    )
    def test_masks(self, kind, mask) -> None:
        mask = np.array(mask, np.int32)
        operator = made(2, 4, 5, 3, mask=desc(mask.shape, "int32"), mask_type=kind)
        arrays = filled(operator, 1)
        arrays[operator.input_fields.index("mask")] = mask
        check(operator, arrays, 1000)

    def test_heads_of_queries_share_keys(self) -> None:
        operator = make(
            "multihead_attention1",
            query=desc((2, 3, 48)),
            key=desc((2, 3, 16)),
            value=desc((2, 3, 16)),
            past_key=desc((2, 2, 4, 8)),
            past_value=desc((2, 2, 4, 8)),
            past_sequence_lengths=desc((2,), "int32"),
            scale=0.3,
            mask_filter_value=-1000,
            query_head_count=6,
            key_value_head_count=2,
            mask_type="none",
        )
        arrays = filled(operator, 2)
        arrays[operator.input_fields.index("past_sequence_lengths")] = np.array([1, 3], np.int32)
        check(operator, arrays, 100)

    @pytest.mark.parametrize("block", [1, 7, 20, 40, 1000])
    def test_blocks_of_any_size_give_the_same(self, block, monkeypatch) -> None:
        operator = made(2, 4, 5, 3, relative_position_bias=desc((2, 3, 4, 5)))
        monkeypatch.setattr(attention, "_BLOCK", block)
        check(operator, filled(operator, 3), 100)

    @pytest.mark.parametrize("value", [np.nan, np.inf])
    def test_what_is_not_finite_is_as_in_the_reference(self, value) -> None:
        operator = made(1, 2, 3, 1)
        arrays = filled(operator, 4)
        arrays[2][0, 1, 2] = value
        for got, expected in zip(run(operator, *arrays), operator.evaluate(*arrays), strict=True):
            np.testing.assert_array_equal(got, expected)

    def test_a_large_one(self) -> None:
        operator = made(1, 512, 700, 4)
        check(operator, filled(operator, 5), 100)
