"""RoiAlign next to ONNX's definition, written out, where samples are at the edges, and regions small or empty."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from support.onnx.one_node import DEVICES, results
from support.problems import raises

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName

Array = np.ndarray[Any, Any]
H, W = 5, 7
IMAGES = np.random.default_rng(0).normal(size=(2, 2, H, W)).astype(np.float32)

pytestmark = [pytest.mark.usefixtures("directml_path"), pytest.mark.parametrize("device", DEVICES)]


def sample(image: Array, y: float, x: float) -> Array:
    """{C}: interpolated; the elements at the edges extend for one element."""
    height, width = image.shape[1:]
    if not (-1 <= y <= height and -1 <= x <= width):
        return np.zeros(len(image))
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    top, left = int(y), int(x)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    down, across = y - top, x - left
    upper = (1 - across) * image[:, top, left] + across * image[:, top, right]
    lower = (1 - across) * image[:, bottom, left] + across * image[:, bottom, right]
    return np.asarray((1 - down) * upper + down * lower)


def aligned(region: Array, image: Array, height: int, width: int, scale: float, samples: int, half: bool) -> Array:
    """{C, height, width}, as ONNX defines it."""
    left, top, right, bottom = (float(each) * scale - (0.5 if half else 0) for each in region)
    rows, columns = bottom - top, right - left
    if not half:
        rows, columns = max(rows, 1.0), max(columns, 1.0)
    down = samples or math.ceil(rows / height)
    across = samples or math.ceil(columns / width)
    made = np.zeros((len(image), height, width))
    for row, column in itertools.product(range(height), range(width)):
        for i, j in itertools.product(range(down), range(across)):
            y = top + (row + (i + 0.5) / down) * rows / height
            x = left + (column + (j + 0.5) / across) * columns / width
            made[:, row, column] += sample(image, y, x)
    return made / max(down * across, 1)


# Samples at −1 and at the sizes; regions that are small, empty, inverted, far away, larger than the image.
REGIONS = np.array(
    [
        [0, 0, 0.25, 0.25],
        [1, 1, 1, 1],
        [3, 2, 1, 1],
        [2, 1, 2, 4],
        [-1.5, -1.5, 4.5, 4.5],
        [-2, -2, 8, 8],
        [-1, -1, -1, -1],
        [7, 5, 7, 5],
        [-0.5, -0.5, 7.5, 5.5],
        [-1.25, -1.25, 7.25, 5.25],
        [5, 3, 9, 7],
        [20, 20, 24, 24],
        [-3, 0, 12, 3],
        [0.1, 0.1, 4.1, 4.1],
    ],
    np.float32,
)


@pytest.mark.parametrize("samples", [0, 1, 2])
@pytest.mark.parametrize("half", [True, False])
@pytest.mark.parametrize(("height", "width"), [(1, 1), (2, 2), (3, 5)])
def test_regions(device: DeviceName, half: bool, samples: int, height: int, width: int) -> None:
    for scale, dtype in ((1.0, np.float32), (0.25, np.float32), (1.0, np.float16)):
        regions = (REGIONS[:-1] if dtype == np.float16 else REGIONS) / np.float32(scale)
        batches = np.arange(len(regions)) % 2
        (got,) = results(
            "RoiAlign",
            {"x": IMAGES.astype(dtype), "rois": regions.astype(dtype), "batches": batches},
            device,
            opset=22,
            coordinate_transformation_mode="half_pixel" if half else "output_half_pixel",
            sampling_ratio=samples,
            spatial_scale=scale,
            output_height=height,
            output_width=width,
        )
        images = IMAGES.astype(dtype).astype(np.float64)
        expected = [
            aligned(region, images[batch], height, width, scale, samples, half)
            for region, batch in zip(regions, batches, strict=True)
        ]
        bound = 2e-3 if dtype == np.float16 else 3e-5
        np.testing.assert_allclose(got, expected, bound, bound)


def test_before_opset_16_there_is_no_half_pixel(device: DeviceName) -> None:
    inputs: dict[str, Array] = {"x": IMAGES, "rois": REGIONS, "batches": np.zeros(len(REGIONS), np.int64)}
    (got,) = results("RoiAlign", inputs, device, opset=10, output_height=2, output_width=2)
    expected = [aligned(region, IMAGES[0].astype(np.float64), 2, 2, 1.0, 0, False) for region in REGIONS]
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=3e-5)


def test_a_widened_region_has_one_sample(device: DeviceName) -> None:
    """Its length is not rounded up, wherever it begins."""
    starts = np.random.default_rng(1).uniform(-0.9, 4, (40, 2)).astype(np.float32)
    regions = np.concatenate([starts, starts + np.float32(0.3)], 1)
    (got,) = results("RoiAlign", {"x": IMAGES, "rois": regions, "batches": np.zeros(40, np.int64)}, device, opset=10)
    expected = [aligned(region, IMAGES[0].astype(np.float64), 1, 1, 1.0, 1, False) for region in regions]
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


OTHER_DIMENSIONS = [
    ((5, 7), (3, 4), "rank", "X", [5, 7]),
    ((1, 1, 5, 7), (3, 5), "sizes", "rois", [3, 5]),
    ((1, 1, 5, 7), (1, 3, 4), "rank", "rois", [1, 3, 4]),
]


@pytest.mark.parametrize(("image", "regions", "code", "field", "got"), OTHER_DIMENSIONS)
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_other_dimensions_are_refused(
    device: DeviceName, mode: str, image: tuple[int, ...], regions: tuple[int, ...], code: str, field: str, got: object
) -> None:
    feeds: dict[str, Array] = {"x": np.zeros(image, np.float32), "rois": np.zeros(regions, np.float32)}
    feeds["batches"] = np.zeros(3, np.int64)
    with raises(dg.ModelError, code, node="y0", field=field, got=got):
        results("RoiAlign", feeds, device, mode=mode)
