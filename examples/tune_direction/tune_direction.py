"""Teaches a model that sees whether a line of text is upside down to see it of handwritten digits, by LoRA.

The model is PP-OCR's, in a package that pip downloads.  A wheel is a zip file; nothing of it is installed:

    pip install "dmlgraph[onnx]" scikit-learn
    pip download --no-deps --dest models rapidocr-onnxruntime==1.4.4
    python examples/tune_direction/tune_direction.py models/rapidocr_onnxruntime-1.4.4-py3-none-any.whl

A picture is a line of four of scikit-learn's digits, half of them turned.  Only pairs of small matrices beside the
weights are trained; what they add is then put into the weights, and tuned.onnx is a model as the first one.
"""

from __future__ import annotations

import copy
import pathlib
import sys
import tempfile
import zipfile
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import dmlgraph as dg

MODEL = "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx"
BATCH, DIGITS, SCALE = 8, 4, 6  # lines of 8 · 6 = 48 by 4 · 8 · 6 = 192 pixels
HELD_OUT = 64


def lines(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Pictures float32 [count, 3, 48, 192] of -1 to 1, and whether each is turned: [1, 0] or [0, 1]."""
    random, digits = np.random.default_rng(seed), load_digits()
    chosen = digits.images[np.isin(digits.target, [2, 3, 4, 5, 7])]  # these look another way upside down
    rows = np.concatenate(chosen[random.choice(len(chosen), (DIGITS, count))], axis=2) / 8 - 1
    turned = random.integers(0, 2, count)
    rows[turned == 1] = rows[turned == 1, ::-1, ::-1]
    large = np.kron(rows, np.ones((1, SCALE, SCALE)))
    return np.repeat(large[:, None], 3, axis=1).astype(np.float32), np.eye(2, dtype=np.float32)[turned]


def tuned_graph(model: pathlib.Path) -> dg.Graph:
    """The model with pairs of rank 4 beside the weights of its last product and of convolutions without groups."""
    g = dg.load(model, dims={"x[0]": BATCH, "x[2]": 48, "x[3]": 192})
    dg.add_lora(g, "*", rank=4)
    return g


def training_graph(model: dg.Graph) -> dg.Graph:
    g = copy.copy(model)
    (shares,) = g.outputs.values()
    turned = g.input("turned", sizes=shares.sizes, dtype="float32")
    loss = dg.reduce(dg.log(shares) * turned, function="sum") * (-1 / BATCH)
    g.output("loss", loss)
    g.minimize(loss, ["lora/*"], optimizer=dg.Adam(3e-3))
    return g


def right(graph: dg.Graph, device: Any, states: Any = None) -> float:
    """The share of held-out lines whose direction is seen."""
    pictures, turned = lines(HELD_OUT, seed=1)
    exe = graph.compile(device)
    found = [
        next(iter(exe.run({"x": pictures[start : start + BATCH]}, states=states).values()))
        for start in range(0, HELD_OUT, BATCH)
    ]
    return float((np.concatenate(found).argmax(1) == turned.argmax(1)).mean())


def tune(model: pathlib.Path, target: pathlib.Path, steps: int = 40, device: Any = "auto") -> tuple[float, float]:
    """The shares before and after; writes the tuned model."""
    graph = tuned_graph(model)
    training = training_graph(graph).compile(device)
    pictures, turned = lines(BATCH * steps, seed=0)
    before = right(graph, device)
    print(f"before: {before:.0%} of {HELD_OUT} lines are right")
    for step in range(steps):
        batch = slice(step * BATCH, (step + 1) * BATCH)
        loss = training.run({"x": pictures[batch], "turned": turned[batch]})["loss"].item()
        if (step + 1) % 10 == 0:
            print(f"step {step + 1}: {loss:.3f}")
    dg.save(dg.merge_lora(graph, training.states), target)
    after = right(dg.load(target), device)
    print(f"after: {after:.0%}, and {target} is as large as before")
    return before, after


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        zipfile.ZipFile(sys.argv[1]).extract(MODEL, folder)
        tune(pathlib.Path(folder) / MODEL, pathlib.Path("tuned.onnx"), 40, *sys.argv[2:3])
