"""VALUE_SCALE_2D: scale · x + bias[channel]."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from support.operators import exact
from support.operators.families import ShapedTests
from support.operators.harness import FLOATS, array, case, each_dtype, refused, run

from dmlgraph.devices.names import DeviceName


class TestValueScale2d(ShapedTests):
    operator = "value_scale_2d"
    levels = "1.0: 4D F32 F16"
    sample = case(
        "three channels",
        [[[[[1, 2]], [[3, 4]], [[5, 6]]], [[[7, 8]], [[9, 10]], [[11, 12]]]]],
        [[[[12, 14]], [[-14, -12]], [[10.5, 12.5]]], [[[24, 26]], [[-2, 0]], [[22.5, 24.5]]]],
        scale=2,
        bias=[10, -20, 0.5],
    )
    cases = (
        sample,
        *each_dtype(FLOATS, "one channel", [[[[[1, 2], [3, 4]]]]], [[[[2.5, 3], [3.5, 4]]]], scale=0.5, bias=[2]),
        *each_dtype(FLOATS, "zero scale leaves the bias", [[[[[1, 2]]]]], [[[[3, 3]]]], scale=0, bias=[3]),
    )

    def at_rank(self, rank: int) -> tuple[list[list[int]], dict[str, Any]]:
        return [[1] * rank], {"scale": 1, "bias": [1]}

    def test_product_and_sum_are_each_rounded(self, device: DeviceName) -> None:
        """Measured: every step is rounded, in float16 too."""
        for dtype in FLOATS:
            scale, bias, *numbers = exact.values([0.7, 0.3, 1.1, -3.7, 100.3], dtype)
            expected = [exact.rounded(Fraction(exact.rounded(scale * x, dtype)) + bias, dtype) for x in numbers]
            x = array([float(number) for number in numbers], dtype).reshape(1, 1, 1, -1)
            got = run("value_scale_2d", [x], device=device, scale=0.7, bias=[0.3])
            np.testing.assert_array_equal(got.ravel(), array(expected, dtype))

    def test_images_have_one_or_three_channels(self) -> None:
        error = refused("value_scale_2d", [np.zeros([1, 2, 1, 1], np.float32)], scale=1, bias=[1, 2])
        assert (error.field, error.got, error.allowed) == ("input.sizes", 2, "1 or 3")

    def test_every_channel_has_a_bias(self) -> None:
        error = refused("value_scale_2d", [np.zeros([1, 3, 1, 1], np.float32)], scale=1, bias=[1])
        assert (error.field, error.got, error.allowed) == ("bias", 1, "3")
