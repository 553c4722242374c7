"""The digit classifier: its results, how often it is right, and the script that trains it."""

from __future__ import annotations

import pathlib
import runpy
from typing import Any

import numpy as np
import pytest

Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def training() -> dict[str, Any]:
    return runpy.run_path(str(pathlib.Path(__file__).parent.parent.parent / "tools" / "train_digits.py"))


@pytest.fixture(scope="module")
def weights(examples: pathlib.Path) -> dict[str, Array]:
    return {path.stem: np.load(path) for path in (examples / "digits").glob("*_*.npy")}


def convolution(x: Array, weights: dict[str, Array], layer: str, padding: int) -> Array:
    """Tap by tap, in float64."""
    filters, bias = (weights[f"{layer}_{part}"].astype(np.float64) for part in ("filter", "bias"))
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    rows, columns = (size - filters.shape[2] + 1 for size in x.shape[2:])
    y = np.tile(bias[:, None, None], (len(x), 1, rows, columns))
    for row in range(filters.shape[2]):
        for column in range(filters.shape[3]):
            taps = filters[:, :, row, column]
            y += np.einsum("nchw,oc->nohw", x[:, :, row : row + rows, column : column + columns], taps)
    return y


def probabilities(pixels: Array, weights: dict[str, Array]) -> Array:
    """The network in plain NumPy, in float64: [N, 10, 1, 1]."""
    first = np.maximum(convolution(pixels / 16, weights, "first", 1), 0)
    second = np.maximum(convolution(first, weights, "second", 1), 0)
    pooled = np.max([second[:, :, row::2, column::2] for row in (0, 1) for column in (0, 1)], axis=0)
    exponential = np.exp(convolution(pooled, weights, "last", 0))
    return exponential / exponential.sum(axis=1, keepdims=True)


def accuracy(digits: Array, labels: Array) -> float:
    return float((digits.ravel() == labels).mean())


def test_the_digits_held_out_are_read(run_example: Any, training: dict[str, Any], weights: dict[str, Array]):
    _, _, pixels, labels = training["split_digits"]()
    results = run_example("digits/digits", {"N": len(pixels)}, pixels=pixels)
    assert accuracy(results["digit"], labels) >= 0.95
    assert (results["digit"].ravel() == labels).sum() == 356  # as the example's comment says
    np.testing.assert_allclose(results["probability"], probabilities(pixels, weights), rtol=1e-4, atol=1e-7)


def test_the_ten_digits_shown_were_not_trained_with(examples: pathlib.Path, training: dict[str, Any]):
    pixels, _, held_out, labels = training["split_digits"]()
    trained_with, known = ({image.tobytes() for image in images} for images in (pixels, held_out))
    shown = np.load(examples / "digits" / "pixels.npy")
    assert {image.tobytes() for image in shown} <= known - trained_with
    assert [labels[(held_out == image).all((1, 2, 3))].tolist() for image in shown] == [[n] for n in range(10)]


def test_the_weights_are_small(examples: pathlib.Path):
    assert sum(path.stat().st_size for path in (examples / "digits").glob("*.npy")) <= 200_000


def test_two_epochs_of_training_read_nine_of_ten_digits(training: dict[str, Any]):
    pixels, labels, held_out, held_out_labels = training["split_digits"]()
    *_, weights = training["train"](pixels, labels, epochs=2)
    assert accuracy(probabilities(held_out, weights).argmax(axis=1), held_out_labels) > 0.9
