"""The graph of rotary_encoding.yaml in Python: pairs of features turned by an angle that grows with the position.

    python examples/rotary_encoding/rotary_encoding.py

x and y are float32 [batch, heads, tokens, features]; feature i is paired with feature i + features / 2.
"""

import math
import pathlib

import numpy as np

import dmlgraph as dg

FOLDER = pathlib.Path(__file__).parent


def angles(g: dg.Graph, tokens: int, pairs: int) -> dg.Value:
    """position / 10000^(i / pairs), float32 [1, 1, tokens, pairs]: 10000^(-i / pairs) is e^(-i ln(10000) / pairs)."""
    position = g.fill_value_sequence(sizes=[1, 1, tokens, 1], dtype="float32", value_start=0, value_delta=1)
    step = -math.log(10000) / pairs
    exponent = g.fill_value_sequence(sizes=[1, 1, 1, pairs], dtype="float32", value_start=0, value_delta=step)
    return position * dg.exp(exponent)


def build(batch: int = 1, heads: int = 1, tokens: int = 3, features: int = 8) -> dg.Graph:
    g = dg.Graph("rotary_encoding", target="4.1")
    x = g.input("x", sizes=[batch, heads, tokens, features], dtype="float32")
    pairs = features // 2
    first, second = dg.split(x, axis=3, outputs=[pairs, pairs])
    angle = angles(g, tokens, pairs)
    cosine, sine = dg.cos(angle), dg.sin(angle)
    turned = [first * cosine - second * sine, second * cosine + first * sine]
    g.output("y", dg.join(turned, axis=3))
    return g


if __name__ == "__main__":
    x = np.load(FOLDER / "x.npy")
    print(build(*x.shape).compile().run({"x": x})["y"])
