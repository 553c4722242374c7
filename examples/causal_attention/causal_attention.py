"""The graph of causal_attention.yaml in Python: softmax(q·kᵀ / √depth + mask)·v, with a mask from diagonals.

    python examples/causal_attention/causal_attention.py

q, k, v and y are float32 [batch, heads, tokens, depth].  It prints the weights, a triangle, and y.
"""

import math
import pathlib

import numpy as np

import dmlgraph as dg

FOLDER = pathlib.Path(__file__).parent


def build(batch: int = 1, heads: int = 1, tokens: int = 3, depth: int = 4) -> dg.Graph:
    g = dg.Graph("causal_attention", target="5.1")
    q, k, v = (g.input(name, sizes=[batch, heads, tokens, depth], dtype="float32") for name in "qkv")
    mask = g.diagonal_matrix1(
        sizes=[tokens, tokens], dtype="float32", value=-math.inf, diagonal_fill_begin=1, diagonal_fill_end=tokens
    )
    score = dg.gemm(q, k, mask, trans_b="transpose", alpha=1 / math.sqrt(depth))
    weights = dg.activation_softmax1(score, axes=[-1])
    g.output("weights", weights)
    g.output("y", dg.gemm(weights, v))
    return g


if __name__ == "__main__":
    inputs = {name: np.load(FOLDER / f"{name}.npy") for name in "qkv"}
    for name, array in build(*inputs["q"].shape).compile().run(inputs).items():
        print(f"{name}:\n{array}")
