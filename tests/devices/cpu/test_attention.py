"""Attention of the CPU executor equals the reference's, in float32."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cpu.near import compiled, desc, filled, layouts, make, run, seeds
from support.cpu.plans import kinds

from dmlgraph._native import cpu_kernels

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

    @pytest.mark.parametrize("stack", ["query_key", "key_value", "query_key_value"])
    @pytest.mark.parametrize("dtype", ["float32", "float16"])
    def test_stacks(self, stack, dtype) -> None:
        parts = stack.split("_")
        rest = {role: desc((2, 9, 24), dtype) for role in ("query", "key", "value") if role not in parts}
        roles = dict.fromkeys(("query", "key", "value")) | rest
        operator = make(
            "multihead_attention",
            **roles,
            **{f"stacked_{stack}": desc((2, 9, 3, len(parts), 8), dtype)},
            bias=desc((72,), dtype),
            scale=0.25,
        )
        check(operator, filled(operator, 6), 100)

    @given(counts, st.integers(1, 300), st.integers(1, 300), st.integers(1, 40), st.integers(1, 40), floats, seeds)
    @settings(max_examples=25, deadline=None)
    def test_sizes_of_several_blocks(self, heads, queries, keys, size, value_size, dtype, seed) -> None:
        operator = make(
            "multihead_attention",
            query=desc((1, queries, heads * size), dtype),
            key=desc((1, keys, heads * size), dtype),
            value=desc((1, keys, heads * value_size), dtype),
            relative_position_bias=desc((1, 1, queries, keys), dtype),
            scale=0.1,
            head_count=heads,
        )
        check(operator, filled(operator, seed), 300)

    @pytest.mark.parametrize("heads", [1, 2, 8])
    @pytest.mark.parametrize("queries", [1, 3, 30])
    def test_only_past_keys(self, heads, queries) -> None:
        operator = make(
            "multihead_attention1",
            query=desc((2, queries, 8 * 8)),
            past_key=desc((2, heads, 200, 8)),
            past_value=desc((2, heads, 200, 12)),
            relative_position_bias=desc((2, 8, queries, 200)),
            scale=0.3,
            query_head_count=8,
            key_value_head_count=heads,
        )
        check(operator, filled(operator, 7), 100)

    @pytest.mark.parametrize("queries", [2, 40])
    @pytest.mark.parametrize("filter_value", [-np.inf, float(np.finfo(np.float32).min), -1e9, 0])
    def test_a_mask_that_hides_every_key(self, filter_value, queries) -> None:
        """Keys that are all hidden alike have the weights that they have without a mask, or none."""
        operator = made(
            2,
            queries,
            150,
            2,
            mask=desc((2, 2, queries, 150), "int32"),
            mask_type="boolean",
            mask_filter_value=filter_value,
            relative_position_bias=desc((2, 2, queries, 150)),
        )
        arrays = filled(operator, 8)
        arrays[operator.input_fields.index("query")] *= 0
        arrays[operator.input_fields.index("relative_position_bias")] *= 0
        mask = np.ones((2, 2, queries, 150), np.int32)
        mask[0, 0] = 0  # all of a head
        mask[0, 1, :, :140] = 0  # a whole block, and some of the next one
        mask[1, 0, 1] = 0  # all of a query
        arrays[operator.input_fields.index("mask")] = mask
        (got,), (expected,) = run(operator, *arrays), operator.evaluate(*arrays)
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)
        assert np.isnan(expected).any() == np.isinf(filter_value)

    @pytest.mark.parametrize("queries", [1, 2, 40])
    @pytest.mark.parametrize("place", [0, 149])
    @pytest.mark.parametrize("role", ["query", "key", "value"])
    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    def test_what_is_not_finite_is_where_it_is_in_the_reference(self, value, role, place, queries) -> None:
        operator = made(1, queries, 150, 1)
        arrays = [None if each is None else each * np.float32(0.1) for each in filled(operator, 4)]
        array = arrays[operator.input_fields.index(role)]
        array[0, min(place, array.shape[1] - 1), 2] = value
        (got,), (expected,) = run(operator, *arrays), operator.evaluate(*arrays)
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)

    def test_great_scores(self) -> None:
        """Weights are powers of differences to the greatest score: they do not overflow."""
        operator = made(1, 20, 300, 2, scale=100.0)
        arrays = filled(operator, 9)
        (got,) = run(operator, *arrays)
        (expected,) = operator.evaluate(*arrays)
        np.testing.assert_allclose(got, expected, rtol=0.02, atol=0.02)

    @pytest.mark.parametrize(("queries", "keys"), [(1, 1000), (3, 70), (77, 77), (600, 40), (300, 513)])
    @pytest.mark.parametrize("dtype", ["float32", "float16"])
    def test_any_number_of_threads_gives_the_same(self, queries, keys, dtype) -> None:
        operator = made(2, queries, keys, 3, dtype, bias=desc((3 * 22,), dtype))
        arrays = filled(operator, 5)
        (one,), *others = (run(operator, *arrays, threads=threads) for threads in (1, 2, 3))
        for (each,) in others:
            np.testing.assert_array_equal(one, each)
        check(operator, arrays, 600)

    def test_it_is_native(self) -> None:
        with compiled(made(1, 4, 5, 2)) as executable:
            assert "python" not in kinds(executable)


def check_levels() -> None:
    """Few queries and many, sizes that are no multiples of blocks, a mask; a process for each level runs this."""
    for queries, keys in (1, 200), (4, 9), (5, 130), (70, 300):
        operator = made(2, queries, keys, 3, mask=desc((1, 2), "int32"), mask_type="key_sequence_length")
        arrays = filled(operator, queries)
        arrays[operator.input_fields.index("mask")] = np.array([[keys - 1, 0]], np.int32)
        check(operator, arrays, 1000)


@pytest.mark.parametrize("level", cpu_kernels.levels())
def test_every_instruction_set(level: str) -> None:
    environment = os.environ | {"DMLGRAPH_CPU_LEVEL": level, "PYTHONPATH": str(Path(__file__).parents[2])}
    code = "from devices.cpu import test_attention; test_attention.check_levels()"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
