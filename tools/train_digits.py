"""Trains the digit classifier of examples/digits and writes its weights there: python tools/train_digits.py

The data are scikit-learn's 1797 handwritten digits, 8 by 8 pixels of 0 to 16; 360 of them are held out.  The network is
that of examples/digits/digits.yaml: its constants become states, which each run on `cpu` changes by one step of Adam.
It takes some seconds, and the seeds are fixed.
"""

from __future__ import annotations

import copy
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import dmlgraph as dg

Array = np.ndarray[Any, Any]
Weights = dict[str, Array]

FOLDER = pathlib.Path(__file__).parent.parent / "examples" / "digits"
HELD_OUT = 360


def split_digits() -> tuple[Array, Array, Array, Array]:
    """Pixels uint8 [N, 1, 8, 8] and labels [N], to train with; then those held out."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    pixels, labels = digits.images.astype(np.uint8)[order, None], digits.target[order]
    return pixels[HELD_OUT:], labels[HELD_OUT:], pixels[:HELD_OUT], labels[:HELD_OUT]


def network(count: int) -> dg.Graph:
    """The example for so many digits, with its weights as states; at the level that losses need."""
    text = (FOLDER / "digits.yaml").read_text("utf-8").replace('target: "4.0"', 'target: "5.1"')
    model = dg.loads(text, folder=FOLDER, dims={"N": count})
    model.make_trainable("*_filter", "*_bias")
    return model


def initial(random: np.random.Generator, model: dg.Graph) -> Weights:
    """He's initialisation: normal, variance 2 / inputs of a neuron; biases are zero."""
    weights: Weights = {}
    for state in model.states:
        sizes = state.desc.sizes
        is_bias = len(sizes) == 1
        start = np.zeros(sizes) if is_bias else random.standard_normal(sizes) * np.sqrt(2 / np.prod(sizes[1:]))
        weights[state.name] = start.astype(np.float32)
    return weights


def training_graph(model: dg.Graph, rate: str) -> dg.Graph:
    """A step of training for each run."""
    g = copy.copy(model)
    labels = g.input("labels", sizes=[g.dims["N"]], dtype="int32")
    loss = dg.losses.softmax_cross_entropy(g.value("score").flatten(), labels)
    g.output("loss", loss)
    g.minimize(loss, ["*"], dg.Adam(rate))
    return g


def train(pixels: Array, labels: Array, *, epochs: int = 20, batch: int = 32, rate: float = 2e-3) -> Iterator[Weights]:
    """Trains with a rate that falls linearly to zero; yields the weights after each epoch."""
    random = np.random.default_rng(0)
    model = network(batch)
    starts = range(0, len(pixels) - batch + 1, batch)
    step = training_graph(model, f"{rate} * (1 - step / {epochs * len(starts)})").compile("cpu")
    for name, each in initial(random, model).items():
        step.states[name] = each
    for _ in range(epochs):
        order = random.permutation(len(pixels))
        for start in starts:
            chosen = order[start : start + batch]
            step.run({"pixels": pixels[chosen], "labels": labels[chosen].astype(np.int32)})
        yield {state.name: step.states[state.name] for state in model.states}


def probabilities(pixels: Array, weights: Weights) -> Array:
    """How sure the network is of each digit, [N, 10]."""
    model = network(len(pixels))
    return model.with_states(weights).compile("cpu").run({"pixels": pixels})["probability"].reshape(-1, 10)


def main() -> None:
    pixels, labels, held_out, held_out_labels = split_digits()
    for epoch, weights in enumerate(train(pixels, labels), 1):
        found = probabilities(held_out, weights)
        loss = -np.log(found[np.arange(HELD_OUT), held_out_labels]).mean()
        right = (found.argmax(1) == held_out_labels).sum()
        print(f"epoch {epoch}: loss {loss:.4f} on the digits held out, {right} of {HELD_OUT} are right", flush=True)
    for name, each in weights.items():
        np.save(FOLDER / f"{name}.npy", each)
    # One digit of each kind, not from the training data: the input of the example.
    np.save(FOLDER / "pixels.npy", held_out[[int(np.argmax(held_out_labels == digit)) for digit in range(10)]])


if __name__ == "__main__":
    main()
