"""The graphs of feed_forward.yaml and feed_forward_gelu.yaml in Python: layer norm, a hidden layer, GELU, and back.

    python examples/feed_forward/feed_forward.py

x and y are float32 [batch, tokens, 8].  It builds the block for two feature levels and prints y and how far
they differ.
"""

import math
import pathlib

import numpy as np

import dmlgraph as dg

FOLDER = pathlib.Path(__file__).parent


def gelu(x: dg.Value, level: str) -> dg.Value:
    """½ x (1 + erf(x / √2)): one operator from feature level 5.1 on, three below."""
    if level == "5.1":
        return dg.activation_gelu(x)
    erf = dg.erf(x, scale_bias={"scale": math.sqrt(0.5)})
    return x * dg.identity(erf, scale_bias={"scale": 0.5, "bias": 0.5})


def build(level: str = "4.0", batch: int = 1, tokens: int = 3) -> dg.Graph:
    g = dg.Graph("feed_forward", target=level)
    x = g.input("x", sizes=[batch, tokens, 8], dtype="float32").reshape(-1, 8)
    names = ("norm_scale", "norm_bias", "w1", "b1", "w2", "b2")
    norm_scale, norm_bias, w1, b1, w2, b2 = (g.constant(name, np.load(FOLDER / f"{name}.npy")) for name in names)
    norm = dg.mean_variance_normalization1(x, norm_scale, norm_bias, axes=[1], normalize_variance=True, epsilon=0.00001)
    hidden = gelu(dg.gemm(norm, w1, b1), level)
    g.output("y", (x + dg.gemm(hidden, w2, b2)).reshape(batch, tokens, 8))
    return g


if __name__ == "__main__":
    x = np.load(FOLDER / "x.npy")
    by_erf, by_gelu = (build(level, *x.shape[:2]).compile().run({"x": x})["y"] for level in ("4.0", "5.1"))
    print(f"{by_erf}\ndifference: {np.abs(by_erf - by_gelu).max()}")
