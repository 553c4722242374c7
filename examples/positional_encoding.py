"""The graph of positional_encoding.yaml in Python: the sinusoidal position encoding, from fills only.

    python examples/positional_encoding.py

It prints the encoding of 6 positions, 16 features each: sines and cosines in turn.
"""

import math

import dmlgraph as dg


def build(positions: int = 6, features: int = 16) -> dg.Graph:
    """The output is float32 [positions, features / 2, 2]; its memory is that of [positions, features]."""
    pairs = features // 2
    g = dg.Graph("positional_encoding", target="4.0")
    position = g.fill_value_sequence(sizes=[positions, 1, 1], dtype="float32", value_start=0, value_delta=1)
    # ln(10000^(-i / pairs)) = -i * ln(10000) / pairs
    step = -math.log(10000) / pairs
    exponent = g.fill_value_sequence(sizes=[1, pairs, 1], dtype="float32", value_start=0, value_delta=step)
    angle = position * dg.exp(exponent)
    sine, cosine = dg.sin(angle), dg.cos(angle)
    odd = g.fill_value_sequence(sizes=[1, 1, 2], dtype="uint8", value_start=0, value_delta=1)
    g.output("encoding", dg.if_(odd, cosine, sine))
    return g


if __name__ == "__main__":
    encoding = build().compile().run()["encoding"]
    print(encoding.reshape(len(encoding), -1).round(3))
