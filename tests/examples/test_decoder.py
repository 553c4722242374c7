"""The decoder: compared with NumPy at three sizes, in few lines, and in few dispatches."""

from __future__ import annotations

import math
import pathlib
import runpy
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName

Array = np.ndarray[Any, Any]
SIZES = {
    "one_token": {"batch": 1, "length": 1, "heads": 1, "depth": 2, "vocabulary": 3},
    "as_in_the_file": {"batch": 1, "length": 6, "heads": 2, "depth": 8, "vocabulary": 16},
    "wide": {"batch": 3, "length": 11, "heads": 3, "depth": 10, "vocabulary": 29},
}
LAYERS = 12


# The model again, token by token and head by head, in float64.


def norm(x: Array, scale: Array, bias: Array) -> Array:
    """Float64 [width], with mean 0 and variance 1, scaled and shifted."""
    return (x - x.mean()) / math.sqrt(x.var() + 1e-5) * scale + bias


def turned(x: Array, position: int) -> Array:
    """The features of one head, as pairs of complex numbers, turned by the position; float64 [depth]."""
    pairs = len(x) // 2
    rates = np.array([10000 ** (-i / pairs) for i in range(pairs)])
    z = (x[:pairs] + 1j * x[pairs:]) * np.exp(1j * position * rates)
    return np.concatenate([z.real, z.imag])


def attention(x: Array, qkv: Array, heads: int) -> Array:
    """What each token sees of itself and of earlier ones; [length, width] → [length, width]."""
    length, width = x.shape
    depth = width // heads
    seen = np.empty((length, width))
    for head in range(heads):
        columns = [slice(part * width + head * depth, part * width + (head + 1) * depth) for part in range(3)]
        q, k, v = (x @ qkv[:, each] for each in columns)
        q, k = (np.array([turned(row, position) for position, row in enumerate(each)]) for each in (q, k))
        for token in range(length):
            scores = k[: token + 1] @ q[token] / math.sqrt(depth)
            shares = np.exp(scores - scores.max())
            seen[token, head * depth : (head + 1) * depth] = shares @ v[: token + 1] / shares.sum()
    return seen


def gelu(x: Array) -> Array:
    return x / 2 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def decoder(tokens: Array, given: Mapping[str, Array], heads: int) -> Array:
    """The logits of one text; [length] → float64 [length, vocabulary]."""
    w = {name: array.astype(np.float64) for name, array in given.items()}
    x = w["embedding"][tokens]
    for layer in range(LAYERS):
        part = {name.removeprefix(f"layer.{layer}."): w[name] for name in w if name.startswith(f"layer.{layer}.")}
        normal = np.array([norm(row, part["norm_1.scale"][0], part["norm_1.bias"][0]) for row in x])
        x = x + attention(normal, part["attention.qkv"], heads) @ part["attention.out"]
        normal = np.array([norm(row, part["norm_2.scale"][0], part["norm_2.bias"][0]) for row in x])
        x = x + gelu(normal @ part["up"]) @ part["down"]
    return np.array([norm(row, w["norm.scale"][0], w["norm.bias"][0]) for row in x]) @ w["embedding"].T


@pytest.fixture(scope="module")
def random_weights(examples: pathlib.Path) -> Callable[[dg.Graph], dict[str, Array]]:
    """Those of the script beside the file."""
    function: Callable[[dg.Graph], dict[str, Array]] = runpy.run_path(str(examples / "decoder" / "decoder.py"))[
        "random_weights"
    ]
    return function


@pytest.fixture
def path(examples: pathlib.Path) -> pathlib.Path:
    return examples / "decoder" / "decoder.yaml"


@pytest.mark.parametrize("fuse", [True, False], ids=["fused", "unfused"])
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_the_decoder_is_that_of_numpy(
    sizes: dict[str, int], fuse: bool, path: pathlib.Path, device: DeviceName, random_weights: Any
):
    graph = dg.load(path, dims=sizes)
    given = random_weights(graph)
    tokens = np.random.default_rng(1).integers(0, sizes["vocabulary"], (sizes["batch"], sizes["length"]), np.uint32)
    results = graph.compile(device, fuse=fuse).run({"tokens": tokens, **given})
    expected = np.stack([decoder(text, given, sizes["heads"]) for text in tokens])
    np.testing.assert_allclose(results["logits"], expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


def test_later_tokens_change_no_bit_of_earlier_logits(path: pathlib.Path, device: DeviceName, random_weights: Any):
    graph = dg.load(path)
    executable, given = graph.compile(device), random_weights(graph)
    tokens = np.arange(6, dtype=np.uint32)[None]
    before = executable.run({"tokens": tokens, **given})["logits"]
    after = executable.run({"tokens": np.where(tokens < 4, tokens, 15).astype(np.uint32), **given})["logits"]
    assert after[:, :4].tobytes() == before[:, :4].tobytes()
    assert np.abs(after[:, 4:] - before[:, 4:]).min() > 0


def test_the_file_has_less_than_80_lines(path: pathlib.Path):
    assert len(path.read_text("utf-8").splitlines()) < 80


def test_a_layer_costs_14_dispatches(path: pathlib.Path):
    """Two norms, four dense layers, three for rotary positions, two slices for k and v, three to attend."""
    nodes = [len(dg.load(path, dims={"layers": layers}).lower().nodes) for layers in (1, 2, 12)]
    assert [nodes[1] - nodes[0], nodes[2] - nodes[0]] == [14, 11 * 14]
    assert nodes[0] == 14 + 3  # and the gather, the last norm, the logits
