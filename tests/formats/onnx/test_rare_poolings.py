"""Poolings with rare attributes, next to results by hand."""

from __future__ import annotations

import itertools
import pathlib
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName

Array = np.ndarray[Any, Any]
DEVICES = ["reference", "cpu", "directml:software"]

pytestmark = pytest.mark.usefixtures("directml_path")


def results(
    operator: str, x: Array, device: DeviceName, folder: pathlib.Path, *, count: int = 1, **attributes: Any
) -> list[Array]:
    """The outputs of a model of one node."""
    names = [f"y{index}" for index in range(count)]
    node = helper.make_node(operator, ["x"], names, "pool", **attributes)
    types = [onnx.TensorProto.FLOAT, onnx.TensorProto.INT64]
    outputs = [helper.make_tensor_value_info(name, kind, None) for name, kind in zip(names, types, strict=False)]
    given = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x.shape)
    path = folder / "model.onnx"
    graph = helper.make_graph([node], "model", [given], outputs)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10), path)
    return list(dg.load(path, target="6.2").compile(device=device).run({"x": x}).values())


def means(x: Array, kernel: int, stride: int, dilation: int, pad: int, count: int) -> Array:
    """Means over {H, W}, as many along each dimension; explicit padding counts, what lies beyond does not."""
    size = x.shape[-1]
    made = np.zeros((count, count))
    for row, column in itertools.product(range(count), repeat=2):
        taken = []
        for down, right in itertools.product(range(kernel), repeat=2):
            at = [each * stride + step * dilation - pad for each, step in ((row, down), (column, right))]
            if all(place < size + pad for place in at):
                taken.append(x[tuple(at)] if all(0 <= place < size for place in at) else 0.0)
        made[row, column] = np.mean(taken)
    return made


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("size", "kernel", "stride", "dilation", "pad", "count"),
    [(6, 3, 2, 1, 0, 3), (7, 3, 3, 1, 1, 3), (9, 2, 3, 2, 1, 4), (6, 2, 2, 1, 0, 3)],
)
def test_means_do_not_count_what_ceil_mode_adds(
    size: int, kernel: int, stride: int, dilation: int, pad: int, count: int, device: DeviceName, tmp_path: pathlib.Path
) -> None:
    x = np.random.default_rng(size).normal(0, 1, (1, 1, size, size)).astype(np.float32)
    window: dict[str, Any] = {
        "kernel_shape": [kernel] * 2, "strides": [stride] * 2, "dilations": [dilation] * 2, "pads": [pad] * 4,
    }
    (got,) = results("AveragePool", x, device, tmp_path, ceil_mode=1, count_include_pad=1, **window)
    np.testing.assert_allclose(got[0, 0], means(x[0, 0], kernel, stride, dilation, pad, count), 1e-5, 1e-6)


@pytest.mark.parametrize("device", DEVICES)
def test_indices_of_maxima_counted_by_column(device: DeviceName, tmp_path: pathlib.Path) -> None:
    x = np.random.default_rng(1).permutation(2 * 3 * 4 * 6).reshape(2, 3, 4, 6).astype(np.float32)
    window = {"kernel_shape": [2, 3], "strides": [2, 3]}
    greatest, indices = results("MaxPool", x, device, tmp_path, count=2, storage_order=1, **window)
    by_column = x.swapaxes(-1, -2).ravel()
    np.testing.assert_array_equal(by_column[indices.astype(int)], greatest)
    np.testing.assert_array_equal(greatest, x.reshape(2, 3, 2, 2, 2, 3).max((3, 5)))
