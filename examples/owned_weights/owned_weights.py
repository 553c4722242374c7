"""The graph of owned_weights.yaml in Python: the weights are given with the first run, and kept by the device.

    python examples/owned_weights/owned_weights.py

x float32 [N, 4], w [4, 3] and b [1, 3] → y float32 [N, 3] = relu(x·w + b).
"""

import pathlib

import numpy as np

import dmlgraph as dg

FOLDER = pathlib.Path(__file__).parent


def build(batch: int = 1) -> dg.Graph:
    g = dg.Graph("owned_weights", target="4.0")
    x = g.input("x", sizes=[batch, 4], dtype="float32")
    w = g.input("w", sizes=[4, 3], dtype="float32", owned=True)
    b = g.input("b", sizes=[1, 3], dtype="float32", owned=True)
    g.output("y", dg.gemm(x, w, b, fused_activation="activation_relu"))
    return g


if __name__ == "__main__":
    x, w, b = (np.load(FOLDER / f"{name}.npy") for name in "xwb")
    executable = build(len(x)).compile()
    print(executable.run({"x": x, "w": w, "b": b})["y"])
    print(executable.run({"x": 2 * x})["y"])  # w and b are where they were
    print(executable.run({"x": x, "w": w / 2})["y"])  # another w takes the place of the first
