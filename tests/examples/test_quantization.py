"""Numbers in 8 bits."""

from __future__ import annotations

from typing import Any

import numpy as np


def test_round_trip_per_tensor_and_per_channel(run_example: Any):
    reach = np.array([0.1, 1, 10]).reshape(1, 3, 1, 1)
    x = (np.random.default_rng(0).uniform(-1.2, 1.2, (1, 3, 1, 4)) * reach).astype(np.float32)
    results = run_example("quantization/round_trip", x=x)
    for name, limit in (("per_tensor", reach.max()), ("per_channel", reach)):
        scale = limit / 127
        expected = np.clip(np.round(x / scale), -128, 127) * scale
        np.testing.assert_allclose(results[name], expected, rtol=1e-6, atol=0)
    # A separate scale keeps the small channel's digits.
    small = np.abs(np.clip(x, -reach, reach) - x)[:, 0] + 0.1 / 127 / 2
    assert (np.abs(results["per_channel"] - x)[:, 0] <= small * (1 + 1e-5)).all()
    assert np.abs(results["per_tensor"] - x)[:, 0].max() > small.max()


def test_convolution_in_integers_is_near_the_one_in_floats(run_example: Any):
    picture = np.random.default_rng(0).uniform(0, 1, (1, 1, 5, 5)).astype(np.float32)
    (slope,) = run_example("quantization/convolution", picture=picture).values()
    sobel = np.array([[-1, -2, -1], [0, 0, 0], [1, 2, 1]])
    codes = np.round(picture[0, 0].astype(np.float64) * 255)
    for channel, taps in enumerate((sobel, sobel.T)):
        for row in range(3):
            for column in range(3):
                window = np.s_[row : row + 3, column : column + 3]
                got = slope[0, channel, row, column]
                steps = np.round((codes[window] * taps).sum() / 255 / 8 * 127)
                np.testing.assert_allclose(got, np.clip(steps, -128, 127) / 127, rtol=1e-6)
                # Half a step of the result, and half a step of each pixel times the filter's taps, 8 / 8 in all.
                in_floats = (picture[0, 0][window] * taps).sum() / 8
                assert abs(got - in_floats) <= 0.5 / 127 + 0.5 / 255 + 1e-6
