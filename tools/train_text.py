"""Trains the transformer of examples/generate_text and writes its weights there: python tools/train_text.py

The text is that of Python's `help` topics, which differs a little from version to version: the weights in the
repository are from Python 3.11.  Every printable character of ASCII is a token; others are left out of the text.
It needs JAX (`pip install jax`), and takes some minutes.

    x = embedding[tokens]
    two times: x += attention(norm(x)) @ out;  x += gelu(norm(x) @ up) @ down
    logits = norm(x) @ head, the embedding transposed, with scaled rows

Attention has no positions, but linear biases (Press et al., "Train Short, Test Long", 2022): what a head gives to a
token falls with its distance, by a slope of its own.  So the model can go on behind the length that it was trained for.
"""

from __future__ import annotations

import argparse
import functools
import math
import pathlib
import pydoc_data.topics
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dmlgraph.formats import safetensors

Array = Any
Weights = dict[str, Any]

FILE = pathlib.Path(__file__).parent.parent / "examples" / "generate_text" / "weights.safetensors"
FIRST = 31  # the code of token 0, which stands for the end of a line; the others are " " to "~"
TOKENS, WIDTH, HEADS, LAYERS = 96, 48, 4, 2
BATCH, LENGTH = 24, 96
RATE = 4e-3


def tokens_of(text: str) -> np.ndarray[Any, Any]:
    """The text as tokens, without the characters that are none."""
    codes = np.array([FIRST if each == "\n" else ord(each) for each in text])
    return (codes[(codes >= FIRST) & (codes < FIRST + TOKENS)] - FIRST).astype(np.int32)


def initial(random: np.random.Generator) -> Weights:
    """Normal, of a variance with which numbers keep their size; norms change nothing."""
    sizes = {"embedding": (TOKENS, WIDTH), "norm": (1, WIDTH)}
    for layer in range(LAYERS):
        one = {"norm_1": (1, WIDTH), "qkv": (WIDTH, 3 * WIDTH), "out": (WIDTH, WIDTH)}
        one |= {"norm_2": (1, WIDTH), "up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH)}
        sizes |= {f"layer.{layer}.{name}": each for name, each in one.items()}
    weights: Weights = {}
    for name, each in sizes.items():
        spread = 0.3 if name == "embedding" else 1 / math.sqrt(each[0])
        weights[name] = np.ones(each) if "norm" in name else random.normal(0, spread, each)
    return {name: jnp.asarray(each, jnp.float32) for name, each in weights.items()}


def norm(x: Array, scale: Array) -> Array:
    mean = x.mean(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5) * scale


def attention(x: Array, qkv: Array) -> Array:
    """[batch, length, width] → the same."""
    batch, length, width = x.shape
    q, k, v = jnp.moveaxis((x @ qkv).reshape(batch, length, 3, HEADS, width // HEADS), (2, 3), (0, 2))
    place = jnp.arange(length)
    distance = place[:, None] - place
    slopes = 0.25 ** jnp.arange(1, HEADS + 1)
    bias = jnp.where(distance < 0, -jnp.inf, -slopes[:, None, None] * distance)
    shares = jax.nn.softmax(q @ jnp.swapaxes(k, -1, -2) / math.sqrt(width // HEADS) + bias)
    return jnp.swapaxes(shares @ v, 1, 2).reshape(batch, length, width)


def logits_of(weights: Weights, tokens: Array) -> Array:
    """[batch, length] → [batch, length, tokens]."""
    x = weights["embedding"][tokens]
    for layer in range(LAYERS):
        part = {name.removeprefix(f"layer.{layer}."): each for name, each in weights.items()}
        x = x + attention(norm(x, part["norm_1"]), part["qkv"]) @ part["out"]
        x = x + jax.nn.gelu(norm(x, part["norm_2"]) @ part["up"], approximate=False) @ part["down"]
    return norm(x, weights["norm"]) @ weights["embedding"].T


def loss_of(weights: Weights, tokens: Array) -> Array:
    """The cross-entropy of every token but the first, averaged; [batch, length]."""
    scores = jax.nn.log_softmax(logits_of(weights, tokens[:, :-1]))
    return -jnp.take_along_axis(scores, tokens[:, 1:, None], axis=-1).mean()


@functools.partial(jax.jit, donate_argnums=(0, 1, 2))
def step(weights: Weights, mean: Weights, square: Weights, tokens: Array, number: Array, rate: Array) -> Any:
    """One step of Adam (Kingma and Ba, 2015)."""
    loss, gradients = jax.value_and_grad(loss_of)(weights, tokens)
    mean = jax.tree.map(lambda old, new: 0.9 * old + 0.1 * new, mean, gradients)
    square = jax.tree.map(lambda old, new: 0.99 * old + 0.01 * new**2, square, gradients)

    def changed(weight: Array, first: Array, second: Array) -> Array:
        return weight - rate * first / (1 - 0.9**number) / (jnp.sqrt(second / (1 - 0.99**number)) + 1e-8)

    return jax.tree.map(changed, weights, mean, square), mean, square, loss


def train(text: np.ndarray[Any, Any], steps: int) -> Weights:
    """Weights after so many steps, with a rate that rises at first and then falls to zero."""
    random = np.random.default_rng(0)
    weights = initial(random)
    mean, square = (jax.tree.map(jnp.zeros_like, weights) for _ in range(2))
    for number in range(1, steps + 1):
        starts = random.integers(len(text) - LENGTH, size=BATCH)
        tokens = text[starts[:, None] + np.arange(LENGTH + 1)]
        rate = RATE * min(1, number / 100) * (1 - number / (steps + 1))
        weights, mean, square, loss = step(weights, mean, square, tokens, float(number), rate)
        if number % 100 == 0:
            print(f"step {number}: loss {float(loss):.3f}", flush=True)
    return weights


def folded(weights: Weights) -> dict[str, np.ndarray[Any, Any]]:
    """The weights of the example: what norms scale is scaled by the weights behind them instead."""
    plain = {name: np.asarray(each) for name, each in weights.items()}
    plain["head"] = plain["norm"].T * plain["embedding"].T
    for layer in range(LAYERS):
        for scale, name in (("norm_1", "qkv"), ("norm_2", "up")):
            plain[f"layer.{layer}.{name}"] = plain[f"layer.{layer}.{scale}"].T * plain[f"layer.{layer}.{name}"]
    return {name: np.ascontiguousarray(each) for name, each in plain.items() if "norm" not in name}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=3000)
    steps = parser.parse_args().steps
    text = tokens_of("\n\n".join(pydoc_data.topics.topics.values()))
    weights = train(text, steps)
    safetensors.save(FILE, folded(weights))


if __name__ == "__main__":
    main()
