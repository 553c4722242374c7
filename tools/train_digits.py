"""Trains the digit classifier of examples/digits and writes its weights there: python tools/train_digits.py

The data are scikit-learn's 1797 handwritten digits, 8 by 8 pixels of 0 to 16; 360 of them are held out.  The
network, its gradients and Adam are plain NumPy:

    pixels / 16 [N, 1, 8, 8] → convolution 3×3, ReLU [N, 16, 8, 8] → convolution 3×3, ReLU [N, 32, 8, 8]
    → max pooling 2×2 [N, 32, 4, 4] → convolution 4×4 [N, 10, 1, 1], one score a digit

The last layer is a dense one, written as the convolution whose window is the whole image.  It takes some seconds,
and the seeds are fixed.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

Array = np.ndarray[Any, Any]
Weights = dict[str, Array]

FOLDER = pathlib.Path(__file__).parent.parent / "examples" / "digits"
HELD_OUT = 360
LAYERS = {"first": (16, 1, 3, 3), "second": (32, 16, 3, 3), "last": (10, 32, 4, 4)}  # output, input channels, window
PADDING = {"first": 1, "second": 1, "last": 0}


def split_digits() -> tuple[Array, Array, Array, Array]:
    """Pixels uint8 [N, 1, 8, 8] and labels [N], to train with; then those held out."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    pixels, labels = digits.images.astype(np.uint8)[order, None], digits.target[order]
    return pixels[HELD_OUT:], labels[HELD_OUT:], pixels[:HELD_OUT], labels[:HELD_OUT]


def initial(random: np.random.Generator) -> Weights:
    """He's initialisation: normal, variance 2 / inputs of a neuron; biases are zero."""
    weights: Weights = {}
    for layer, sizes in LAYERS.items():
        spread = np.sqrt(2 / np.prod(sizes[1:]))
        weights[f"{layer}_filter"] = (random.standard_normal(sizes) * spread).astype(np.float32)
        weights[f"{layer}_bias"] = np.zeros(sizes[0], np.float32)
    return weights


def patches(x: Array, window: int, padding: int) -> Array:
    """The windows of images [N, C, H, W] as [N, C, rows, columns, window, window]."""
    padded = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    return np.lib.stride_tricks.sliding_window_view(padded, (window, window), axis=(2, 3))


def convolve(x: Array, weights: Weights, layer: str) -> Array:
    filters = weights[f"{layer}_filter"]
    sums = np.tensordot(patches(x, filters.shape[-1], PADDING[layer]), filters, axes=((1, 4, 5), (1, 2, 3)))
    return np.moveaxis(sums + weights[f"{layer}_bias"], -1, 1)


def convolve_gradient(x: Array, weights: Weights, layer: str, gradient: Array) -> tuple[Array, Weights]:
    """The gradients of a layer's input and of its weights, from that of its output."""
    filters = weights[f"{layer}_filter"]
    window, padding = filters.shape[-1], PADDING[layer]
    to_filters = np.tensordot(gradient, patches(x, window, padding), axes=((0, 2, 3), (0, 2, 3)))
    mirrored = filters[:, :, ::-1, ::-1]
    back = patches(gradient, window, window - 1 - padding)
    to_input = np.moveaxis(np.tensordot(back, mirrored, axes=((1, 4, 5), (0, 2, 3))), -1, 1)
    return to_input, {f"{layer}_filter": to_filters, f"{layer}_bias": gradient.sum((0, 2, 3))}


def pool_windows(x: Array) -> Array:
    """Images [N, C, H, W] as windows of 2 by 2, [N, C, H / 2, 2, W / 2, 2]."""
    batch, channels, height, width = x.shape
    return x.reshape(batch, channels, height // 2, 2, width // 2, 2)


def loss_and_gradients(x: Array, labels: Array, weights: Weights) -> tuple[float, Weights]:
    """Cross-entropy of the network for images [N, 1, 8, 8], averaged, and its gradient for every weight."""
    first = np.maximum(convolve(x, weights, "first"), 0)
    second = np.maximum(convolve(first, weights, "second"), 0)
    pooled = pool_windows(second).max((3, 5))
    scores = convolve(pooled, weights, "last")[:, :, 0, 0]

    exponentials = np.exp(scores - scores.max(1, keepdims=True))
    probabilities = exponentials / exponentials.sum(1, keepdims=True)
    rows = np.arange(len(labels))
    loss = -np.log(probabilities[rows, labels]).mean()

    probabilities[rows, labels] -= 1
    to_scores = probabilities[:, :, None, None] / len(labels)
    to_pooled, gradients = convolve_gradient(pooled, weights, "last", to_scores)
    greatest = pool_windows(second) == pooled[:, :, :, None, :, None]
    to_second = (greatest * to_pooled[:, :, :, None, :, None]).reshape(second.shape) * (second > 0)
    to_first, of_second = convolve_gradient(first, weights, "second", to_second)
    _, of_first = convolve_gradient(x, weights, "first", to_first * (first > 0))
    return float(loss), gradients | of_second | of_first


def train(pixels: Array, labels: Array, *, epochs: int = 20, batch: int = 32, rate: float = 2e-3) -> Iterator[Weights]:
    """Adam (Kingma and Ba, 2015) with a rate that falls linearly to zero; yields the weights after each epoch."""
    random = np.random.default_rng(0)
    x = pixels.astype(np.float32) / 16
    weights = initial(random)
    mean = {name: np.zeros_like(each) for name, each in weights.items()}
    square = {name: np.zeros_like(each) for name, each in weights.items()}
    starts = range(0, len(x) - batch + 1, batch)
    step, steps = 0, epochs * len(starts)
    for _ in range(epochs):
        order = random.permutation(len(x))
        for start in starts:
            chosen = order[start : start + batch]
            _, gradients = loss_and_gradients(x[chosen], labels[chosen], weights)
            step += 1
            now = rate * (1 - step / steps)
            for name, gradient in gradients.items():
                mean[name] += 0.1 * (gradient - mean[name])
                square[name] += 0.001 * (gradient**2 - square[name])
                corrected = np.sqrt(square[name] / (1 - 0.999**step)) + 1e-8
                weights[name] -= now * mean[name] / (1 - 0.9**step) / corrected
        yield weights


def main() -> None:
    pixels, labels, held_out, held_out_labels = split_digits()
    for epoch, weights in enumerate(train(pixels, labels), 1):
        loss, _ = loss_and_gradients(held_out.astype(np.float32) / 16, held_out_labels, weights)
        print(f"epoch {epoch}: loss {loss:.4f} on the digits held out", flush=True)
    for name, each in weights.items():
        np.save(FOLDER / f"{name}.npy", each)
    # One digit of each kind, not from the training data: the input of the example.
    np.save(FOLDER / "pixels.npy", held_out[[int(np.argmax(held_out_labels == digit)) for digit in range(10)]])


if __name__ == "__main__":
    main()
