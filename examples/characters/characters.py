"""Trains a small transformer to go on with text, character by character: python characters.py [STEPS [DEVICE]]

The text are the help topics of Python, which come with it.  A row of `tokens` has 33 characters: of each of the first
32 the next one is predicted.  characters.yaml is the same graph, with its training.
"""

from __future__ import annotations

import copy
import math
import pathlib
import sys
from pydoc_data.topics import topics
from typing import Any

import numpy as np

import dmlgraph as dg
from dmlgraph.formats import safetensors

FOLDER = pathlib.Path(__file__).parent
FIRST, CODES = 31, 96  # the code of token 0, which stands for everything that is not one of " " to "~"
BATCH, LENGTH, HEADS, DEPTH = 16, 32, 2, 16
WIDTH = HEADS * DEPTH
WEIGHTS = ("embedding", "position", "qkv", "out", "up", "down", "head")


def tokens_of(text: str) -> np.ndarray:
    """Rows of LENGTH + 1 characters, of which the last is the first of the next row."""
    codes = np.array([ord(each) - FIRST if " " <= each <= "~" else 0 for each in text], np.uint32)
    rows = (len(codes) - 1) // LENGTH
    return np.stack([codes[row * LENGTH : (row + 1) * LENGTH + 1] for row in range(rows)])


def norm(x: dg.Value) -> dg.Value:
    return dg.mean_variance_normalization1(x, axes=[1], normalize_variance=True, epsilon=1e-5)


def attention(x: dg.Value, qkv: dg.Value) -> dg.Value:
    """[BATCH · LENGTH, WIDTH] → the same; each character sees itself and those before it."""
    parts = dg.gemm(norm(x), qkv).reshape(BATCH, LENGTH, 3, HEADS, DEPTH).transpose(2, 0, 3, 1, 4)
    q, k, v = (parts[index] for index in range(3))
    above = {"value": -math.inf, "diagonal_fill_begin": 1, "diagonal_fill_end": LENGTH}
    mask = x.graph.diagonal_matrix1(sizes=[LENGTH, LENGTH], dtype="float32", **above)
    scores = dg.gemm(q, k, mask, trans_b="transpose", alpha=1 / math.sqrt(DEPTH))
    seen = dg.gemm(dg.activation_softmax1(scores, axes=[-1]), v)
    return seen.transpose(0, 2, 1, 3).reshape(BATCH * LENGTH, WIDTH)


def build() -> dg.Graph:
    g = dg.Graph("characters", target="5.1")
    tokens = g.input("tokens", sizes=[BATCH, LENGTH + 1], dtype="uint32")
    arrays = safetensors.load(FOLDER / "start.safetensors", WEIGHTS)
    weights = {name: g.constant(name, array) for name, array in arrays.items()}
    embedded = dg.gather(weights["embedding"], tokens[:, :-1].reshape(BATCH * LENGTH), axis=0)
    x = (embedded.reshape(BATCH, LENGTH, WIDTH) + weights["position"]).reshape(BATCH * LENGTH, WIDTH)
    x = dg.gemm(attention(x, weights["qkv"]), weights["out"], x)
    hidden = dg.activation_gelu(dg.gemm(norm(x), weights["up"]))
    x = dg.gemm(hidden, weights["down"], x)
    logits = dg.gemm(norm(x), weights["head"])
    labels = tokens[:, 1:].reshape(BATCH * LENGTH)
    g.output("loss", dg.losses.softmax_cross_entropy(logits, labels))
    return g


def training_graph() -> dg.Graph:
    g = copy.copy(build())
    parameters = g.make_trainable(*WEIGHTS)
    g.minimize(g.outputs["loss"], parameters, optimizer=dg.Adam("3e-3 * min(1, step / 20)", clip_norm=1.0))
    return g


def train(steps: int, device: Any = "auto") -> list[float]:
    """The losses of some steps; of 96 characters that are equally likely, it would be 4.56."""
    rows, random = tokens_of("\n".join(topics.values())), np.random.default_rng(0)
    exe = training_graph().compile(device)
    losses = []
    for step in range(1, steps + 1):
        losses.append(exe.run({"tokens": rows[random.choice(len(rows), BATCH)]})["loss"].item())
        if step % 50 == 0 or step == steps:
            print(f"step {step}: {np.mean(losses[-50:]):.3f}")
    return losses


if __name__ == "__main__":
    train(int(sys.argv[1]) if len(sys.argv) > 1 else 300, *sys.argv[2:3])
