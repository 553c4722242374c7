"""Examples with states: random numbers that go on, and a moving average over frames."""

from __future__ import annotations

import pathlib

import numpy as np
from support.text_model import philox

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName


def test_random_numbers_go_on(examples: pathlib.Path, device: DeviceName) -> None:
    exe = dg.load(examples / "random_numbers.yaml", dims={"count": 6}).compile(device)
    for step in range(3):
        words = [*philox(2 * step, (42, 0)), *philox(2 * step + 1, (42, 0))][:6]
        expected = np.float32((np.array(words) // 512 + 0.5) / 2**23)
        np.testing.assert_array_equal(exe.run()["numbers"], expected)


def test_the_average_of_frames(examples: pathlib.Path, device: DeviceName) -> None:
    exe = dg.load(examples / "moving_average.yaml", dims={"height": 4, "width": 5}).compile(device)
    frames = np.random.default_rng(0).integers(256, size=(6, 1, 1, 4, 5)).astype(np.uint8)
    mean = np.zeros((1, 1, 4, 5))
    for frame in frames:
        results = exe.run({"frame": frame})
        np.testing.assert_array_equal(results["moves"], np.abs(frame - mean) > 30)
        mean = 0.9 * mean + 0.1 * frame
        np.testing.assert_allclose(results["background"], mean, rtol=1e-5)
    np.testing.assert_array_equal(exe.states["mean"], results["background"])
