"""The level of a U-Net, compared with loops over pixels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName

Array = np.ndarray[Any, Any]
SIZES = [
    {"batch": 1, "channels": 1, "features": 1, "classes": 1, "rows": 1, "columns": 1},
    {"batch": 1, "channels": 3, "features": 8, "classes": 2, "rows": 3, "columns": 4},
    {"batch": 2, "channels": 2, "features": 5, "classes": 4, "rows": 4, "columns": 3},
]


def convolution(x: Array, w: Array, b: Array) -> Array:
    """As many pixels as before, zeros around them; [batch, C, H, W] → [batch, features, H, W]."""
    around = w.shape[2] // 2
    wide = np.pad(x, ((0, 0), (0, 0), (around, around), (around, around)))
    y = np.empty((len(x), len(w), *x.shape[2:]))
    for row in range(x.shape[2]):
        for column in range(x.shape[3]):
            window = wide[:, :, row : row + w.shape[2], column : column + w.shape[3]]
            y[:, :, row, column] = np.einsum("bcij,fcij->bf", window, w) + b
    return y


def shuffled(x: Array) -> Array:
    """Each four features as squares of pixels; [batch, 4 C, H, W] → [batch, C, 2 H, 2 W]."""
    y = np.empty((len(x), x.shape[1] // 4, 2 * x.shape[2], 2 * x.shape[3]))
    for part in range(4):
        y[:, :, part // 2 :: 2, part % 2 :: 2] = x[:, part::4]
    return y


def expected(given: dict[str, Array]) -> Array:
    w = {name: array.astype(np.float64) for name, array in given.items()}

    def layer(x: Array, name: str) -> Array:
        return convolution(x, w[f"{name}.filter"], w[f"{name}.bias"])

    first = np.maximum(layer(w["image"], "first"), 0)
    corners = [first[:, :, row::2, column::2] for row in (0, 1) for column in (0, 1)]
    deep = np.maximum(layer(np.max(corners, axis=0), "deep"), 0)
    last = np.maximum(layer(np.concatenate([first, shuffled(deep)], axis=1), "last"), 0)
    return layer(last, "score")


@pytest.mark.parametrize("fuse", [True, False], ids=["fused", "unfused"])
@pytest.mark.parametrize("sizes", SIZES, ids=["one_square", "as_in_the_file", "two_images"])
def test_the_block_is_that_of_numpy(sizes: dict[str, int], fuse: bool, examples: Any, device: DeviceName):
    graph = dg.load(examples / "unet_block.yaml", dims=sizes)
    random = np.random.default_rng(0)
    inputs = {node.name: random.standard_normal(node.desc.sizes).astype(np.float32) for node in graph.inputs}
    score = graph.compile(device, fuse=fuse).run(inputs)["score"]
    exact = expected(inputs)
    np.testing.assert_allclose(score, exact, rtol=1e-5, atol=1e-5 * np.abs(exact).max())


def test_only_the_layout_of_pixels_is_copied(examples: Any):
    """Rows of the result are made of rows of the input and of pixels in them: no strides say that."""
    assert len(dg.load(examples / "unet_block.yaml").lower().nodes) == 7
