"""The parts of a transformer: causal attention and the feed-forward block."""

from __future__ import annotations

import math
import pathlib
from typing import Any

import numpy as np
import pytest

Array = np.ndarray[Any, Any]
SIZES = {"batch": 2, "heads": 3, "tokens": 7}


@pytest.fixture(scope="module")
def qkv() -> dict[str, Array]:
    random = np.random.default_rng(0)
    return {name: random.standard_normal((*SIZES.values(), 4)).astype(np.float32) for name in "qkv"}


def attention(q: Array, k: Array, v: Array) -> Array:
    """Token by token, each with the tokens up to itself; float64 [tokens, depth]."""
    y = np.empty(q.shape)
    for token in range(len(q)):
        exponentials = np.exp(k[: token + 1].astype(np.float64) @ q[token] / math.sqrt(q.shape[-1]))
        y[token] = exponentials @ v[: token + 1] / exponentials.sum()
    return y


def test_causal_attention_sees_no_later_token(run_example: Any, qkv: dict[str, Array]):
    results = run_example("causal_attention/causal_attention", SIZES, **qkv)
    for batch in range(2):
        for head in range(3):
            expected = attention(*(array[batch, head] for array in qkv.values()))
            np.testing.assert_allclose(results["y"][batch, head], expected, rtol=1e-5, atol=2e-6)
    assert not np.triu(results["weights"], 1).any()
    np.testing.assert_allclose(results["weights"].sum(axis=3), 1, rtol=1e-6)


def test_later_tokens_change_no_bit_of_earlier_ones(run_example: Any, qkv: dict[str, Array]):
    before = run_example("causal_attention/causal_attention", SIZES, **qkv)["y"]
    changed = {name: array.copy() for name, array in qkv.items()}
    for array in changed.values():
        array[:, :, 4:] = 100
    after = run_example("causal_attention/causal_attention", SIZES, **changed)["y"]
    assert after[:, :, :4].tobytes() == before[:, :, :4].tobytes()
    assert np.abs(after[:, :, 4:] - before[:, :, 4:]).min() > 1


@pytest.mark.parametrize("name", ["feed_forward", "feed_forward_gelu"])
def test_feed_forward(name: str, run_example: Any, examples: pathlib.Path):
    x = (3 * np.random.default_rng(0).standard_normal((2, 5, 8))).astype(np.float32)
    w = {path.stem: np.load(path).astype(np.float64) for path in (examples / "feed_forward").glob("*.npy")}
    exact = x.astype(np.float64)
    centred = exact - exact.mean(-1, keepdims=True)
    norm = w["norm_scale"] * centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) + w["norm_bias"]
    hidden = norm @ w["w1"] + w["b1"]
    gelu = hidden / 2 * (1 + np.vectorize(math.erf)(hidden / math.sqrt(2)))
    y = run_example(f"feed_forward/{name}", {"batch": 2, "tokens": 5}, x=x)["y"]
    np.testing.assert_allclose(y, exact + gelu @ w["w2"] + w["b2"], rtol=1e-5, atol=1e-5)
