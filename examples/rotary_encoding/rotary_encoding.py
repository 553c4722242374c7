"""The graph of rotary_encoding.yaml in Python: pairs of features turned by an angle that grows with the position.

    python examples/rotary_encoding/rotary_encoding.py

x and y are float32 [batch, heads, tokens, features]; feature i is paired with feature i + features / 2.
"""

import math
import pathlib

import numpy as np

import dmlgraph as dg

FOLDER = pathlib.Path(__file__).parent


def build(batch: int = 1, heads: int = 1, tokens: int = 3, features: int = 8) -> dg.Graph:
    g = dg.Graph("rotary_encoding", target="4.1")

    def sequence(start: float, delta: float, *sizes: int) -> dg.Value:
        return g.fill_value_sequence(sizes=sizes, dtype="float32", value_start=start, value_delta=delta)

    pairs = g.input("x", sizes=[batch, heads, tokens, features], dtype="float32").reshape(batch, heads, tokens, 2, -1)
    swapped = pairs[..., ::-1, :]
    position, sign = sequence(0, 1, tokens, 1, 1), sequence(-1, 2, 2, 1)
    rate = dg.exp(sequence(0, -math.log(10000) * 2 / features, features // 2))  # 10000^(-2i / features)
    angle = position * (sign * rate)
    cosine, sine = dg.cos(angle), dg.sin(angle)
    turned = pairs * cosine + swapped * sine
    g.output("y", turned.reshape(batch, heads, tokens, features))
    return g


if __name__ == "__main__":
    x = np.load(FOLDER / "x.npy")
    print(build(*x.shape).compile().run({"x": x})["y"])
