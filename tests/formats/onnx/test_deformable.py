"""Deformable convolutions, beside a calculation place by place."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from support.onnx.parsed import imported, model_of, run
from support.problems import raises

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName

Array = np.ndarray[Any, Any]
DEVICES: list[DeviceName] = ["reference", "cpu", "directml:software"]

pytestmark = pytest.mark.usefixtures("directml_path")


def sample(image: Array, row: float, column: float) -> float:
    """A linear sample of an image, zero outside."""
    total = 0.0
    for y, x in itertools.product(
        (int(np.floor(row)), int(np.floor(row)) + 1), (int(np.floor(column)), int(np.floor(column)) + 1)
    ):
        if 0 <= y < image.shape[0] and 0 <= x < image.shape[1]:
            total += image[y, x] * (1 - abs(row - y)) * (1 - abs(column - x))
    return total


def deformed(
    x: Array,
    w: Array,
    offset: Array,
    bias: Array,
    mask: Array,
    *,
    strides: int,
    dilations: int,
    pads: int,
    groups: int,
    shifts: int,
) -> Array:
    """Deformable convolution as in "Deformable ConvNets v2", in float64."""
    batch, channels = x.shape[:2]
    rows, columns = w.shape[2:]
    height, width = offset.shape[2:]
    made = np.zeros((batch, w.shape[0], height, width))
    offset = offset.reshape(batch, shifts, rows, columns, 2, height, width)
    mask = mask.reshape(batch, shifts, rows, columns, height, width)
    for n, m, i, j in np.ndindex(made.shape):
        total = float(bias[m])
        first = m // (w.shape[0] // groups) * w.shape[1]
        for c, r, k in np.ndindex(w.shape[1:]):
            shift = (first + c) // (channels // shifts)
            down, right = offset[n, shift, r, k, :, i, j]
            at = i * strides - pads + r * dilations + down, j * strides - pads + k * dilations + right
            total += w[m, c, r, k] * mask[n, shift, r, k, i, j] * sample(x[n, first + c], *at)
        made[n, m, i, j] = total
    return made


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("channels", "filters", "kernel", "strides", "dilations", "pads", "groups", "shifts"),
    [(1, 1, 2, 1, 1, 0, 1, 1), (4, 6, 3, 2, 1, 1, 2, 1), (4, 2, 2, 1, 2, 1, 1, 2), (4, 4, 1, 1, 1, 0, 4, 4)],
)
def test_results_are_those_of_the_definition(
    channels: int,
    filters: int,
    kernel: int,
    strides: int,
    dilations: int,
    pads: int,
    groups: int,
    shifts: int,
    device: DeviceName,
) -> None:
    generator = np.random.default_rng(channels + kernel)
    size = 6
    out = (size + 2 * pads - (kernel - 1) * dilations - 1) // strides + 1
    shapes = {
        "x": (2, channels, size, size),
        "w": (filters, channels // groups, kernel, kernel),
        "offset": (2, shifts * kernel * kernel * 2, out, out),
        "bias": (filters,),
        "mask": (2, shifts * kernel * kernel, out, out),
    }
    feeds = {name: generator.normal(0, 1, shape).astype(np.float32) for name, shape in shapes.items()}
    inputs = ", ".join(f"float{list(shape)} {name}" for name, shape in shapes.items())
    model = model_of(
        f"""g ({inputs}) => (float[2,{filters},{out},{out}] y) {{
            y = DeformConv<strides = [{strides}, {strides}], dilations = [{dilations}, {dilations}],
                pads = [{pads}, {pads}, {pads}, {pads}], group = {groups}, offset_group = {shifts}
            >(x, w, offset, bias, mask)
        }}"""
    )
    sizes: dict[str, Any] = {"strides": strides, "dilations": dilations, "pads": pads, "groups": groups}
    expected = deformed(*feeds.values(), **sizes, shifts=shifts)
    np.testing.assert_allclose(run(model, feeds, device)["y"], expected, 1e-4, 1e-5)


def test_without_offsets_and_mask_it_is_a_convolution() -> None:
    generator = np.random.default_rng(1)
    x, w = (
        generator.normal(0, 1, (1, 2, 5, 5)).astype(np.float32),
        generator.normal(0, 1, (3, 2, 3, 3)).astype(np.float32),
    )
    model = model_of(
        "g (float[1,2,5,5] x, float[3,2,3,3] w, float[1,18,3,3] o) => (float[1,3,3,3] y, float[1,3,3,3] z)"
        " {y = DeformConv(x, w, o) z = Conv(x, w)}"
    )
    got = run(model, {"x": x, "w": w, "o": np.zeros((1, 18, 3, 3), np.float32)}, "cpu")
    np.testing.assert_allclose(got["y"], got["z"], 1e-5, 1e-6)


def test_offsets_of_another_size_are_refused() -> None:
    model = model_of(
        "g (float[1,2,5,5] x, float[3,2,3,3] w, float[1,9,3,3] o) => (float[1,3,3,3] y) {y = DeformConv(x, w, o)}"
    )
    with raises(dg.ModelError, "sizes", node="y", field="offset", got=[1, 9, 3, 3]):
        imported(model)
