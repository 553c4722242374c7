"""A batch size given at compilation, and weights that stay on the device."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
from support.problems import raises

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName

TABLE = np.array([[0, 0, 0], [255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 0], [255, 255, 255]])


@pytest.mark.parametrize("batch", [1, 17])
def test_nearest_colours(batch: int, run_example: Any):
    colours = np.random.default_rng(batch).integers(0, 256, (batch, 1, 3))
    results = run_example("nearest_colours/nearest_colours", {"N": batch}, colours=colours.astype(np.float32))
    for index, distance, (colour,) in zip(results["index"], results["distance"], colours, strict=True):
        squares = ((colour - TABLE) ** 2).sum(axis=1)
        assert index.ravel().tolist() == sorted(range(6), key=lambda each: squares[each])[:2]
        assert distance.ravel().tolist() == sorted(squares)[:2]  # whole numbers below 2^24: exact


def test_owned_weights_are_given_once(examples: pathlib.Path, device: DeviceName):
    x, w, b = (np.load(examples / "owned_weights" / f"{name}.npy") for name in "xwb")
    with dg.load(examples / "owned_weights" / "owned_weights.yaml", dims={"N": 2}).compile(device) as executable:
        with raises(dg.DmlGraphError, "missing-input"):
            executable.run({"x": x})
        for scale, given in ((1, {"w": w, "b": b}), (1, {}), (-2, {"w": -2 * w}), (-2, {})):
            y = executable.run({"x": x, **given})["y"]
            np.testing.assert_allclose(y, np.maximum(x @ (scale * w) + b, 0), rtol=1e-6)
        w[:] = 7  # the device keeps the numbers that it was given, not the caller's array
        np.testing.assert_allclose(executable.run({"x": x})["y"], y, rtol=0)
