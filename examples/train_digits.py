"""Trains a classifier of handwritten digits from scratch: python train_digits.py [EPOCHS [DEVICE]]

The data are scikit-learn's 1797 digits, 8 by 8 pixels of 0 to 16; 360 of them are held out.  Each run of `training` is
one step: forward, backward and Adam, in one execution; the weights stay in its states.  `evaluation` reads the same
states.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import dmlgraph as dg

BATCH, HELD_OUT = 64, 360
LAYERS = {"first": (16, 1, 3, 3), "second": (32, 16, 3, 3), "last": (10, 32, 4, 4)}  # output, input channels, window


def scores(g: dg.Graph, pixels: dg.Value) -> tuple[dg.Value, list[dg.Value]]:
    """One score for each digit, {N, 10}, and the weights, which are states."""
    random = np.random.default_rng(0)
    weights = []
    h = pixels * (1 / 16)
    for name, sizes in LAYERS.items():
        spread = np.sqrt(2 / np.prod(sizes[1:]))  # He's initialisation
        start = (random.standard_normal(sizes) * spread).astype(np.float32)
        filters = g.state(f"{name}.weight", sizes=sizes, dtype="float32", initial=start)
        bias = g.state(f"{name}.bias", sizes=[sizes[0]], dtype="float32")
        weights += [filters, bias]
        if name == "last":
            h = dg.max_pooling(h, window_size=[2, 2], strides=[2, 2])
            h = dg.convolution(h, filters, bias)
        else:
            h = dg.activation_relu(dg.convolution(h, filters, bias, start_padding=[1, 1], end_padding=[1, 1]))
    return h.flatten(), weights


def training_graph() -> dg.Graph:
    g = dg.Graph("training")
    pixels = g.input("pixels", sizes=[BATCH, 1, 8, 8], dtype="float32")
    labels = g.input("labels", sizes=[BATCH], dtype="int32")
    logits, weights = scores(g, pixels)
    loss = dg.losses.softmax_cross_entropy(logits, labels)
    g.output("loss", loss)
    g.minimize(loss, weights, optimizer=dg.Adam("3e-3 * min(1, step / 20)"))
    return g


def evaluation_graph(count: int) -> dg.Graph:
    g = dg.Graph("evaluation")
    logits, _ = scores(g, g.input("pixels", sizes=[count, 1, 8, 8], dtype="float32"))
    g.output("digit", dg.argmax(logits, axes=[1]))
    return g


def train(epochs: int, device: Any = "auto") -> tuple[list[float], float]:
    """The mean loss of each epoch, and the share of held-out digits that are read right."""
    digits = load_digits()
    random = np.random.default_rng(0)
    order = random.permutation(len(digits.target))
    pixels, labels = digits.images[order, None].astype(np.float32), digits.target[order].astype(np.int32)
    training = training_graph().compile(device)
    losses = []
    for epoch in range(epochs):
        order = random.permutation(np.arange(HELD_OUT, len(labels)))
        batches = [order[start : start + BATCH] for start in range(0, len(order) - BATCH + 1, BATCH)]
        steps = [training.run({"pixels": pixels[each], "labels": labels[each]})["loss"].item() for each in batches]
        losses.append(float(np.mean(steps)))
        print(f"epoch {epoch + 1}: loss {losses[-1]:.4f}")
    evaluation = evaluation_graph(HELD_OUT).compile(device)
    # The set of the training graph has Adam's moments too; the evaluation reads the weights of it.
    found = evaluation.run({"pixels": pixels[:HELD_OUT]}, states=training.states)["digit"].ravel()
    right = float((found == labels[:HELD_OUT]).mean())
    print(f"{right:.1%} of {HELD_OUT} held-out digits are read right")
    return losses, right


if __name__ == "__main__":
    train(int(sys.argv[1]) if len(sys.argv) > 1 else 8, *sys.argv[2:3])
