"""Sums and statistics beyond a type's range, and attributes beyond the usual ones, next to results by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from support.onnx.one_node import DEVICES, model_of, results
from support.onnx.onnx_runtime import session

from dmlgraph.devices.names import DeviceName

Array = np.ndarray[Any, Any]
INF, NAN = math.inf, math.nan

pytestmark = [pytest.mark.usefixtures("directml_path"), pytest.mark.parametrize("device", DEVICES)]

ROWS = [[100, 100], [-200, -200], [INF, 1], [-INF, -INF], [-INF, 3], [NAN, 1], [INF, -INF], [0, 1]]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("opset", [13, 18])
def test_log_sum_exp_of_large_numbers(device: DeviceName, opset: int, dtype: str) -> None:
    x = np.array(ROWS, dtype)
    axes: dict[str, Any] = {"axes": [1]} if opset == 13 else {}
    inputs = {"x": x} if opset == 13 else {"x": x, "axes": np.array([1])}
    (got,) = results("ReduceLogSumExp", inputs, device, opset=opset, known=[*inputs][1:], keepdims=0, **axes)
    expected = np.logaddexp.reduce(x.astype(np.float64), 1)
    np.testing.assert_allclose(got.astype(np.float64), expected, 1e-6 if dtype == "float32" else 1e-3)


@pytest.mark.parametrize("axes", [[], None])
def test_log_sum_exp_without_axes(device: DeviceName, axes: list[int] | None) -> None:
    """No axes are all of them, unless nothing is reduced then."""
    x = np.array([[90, 95], [100, 100]], np.float32)
    inputs: dict[str, Array] = {"x": x} if axes is None else {"x": x, "axes": np.array(axes, np.int64)}
    (got,) = results("ReduceLogSumExp", inputs, device, opset=18, known=[*inputs][1:], keepdims=0)
    np.testing.assert_allclose(got, [np.logaddexp.reduce(x.astype(np.float64).ravel())], 1e-6)
    (got,) = results("ReduceLogSumExp", inputs, device, opset=18, known=[*inputs][1:], noop_with_empty_axes=1)
    np.testing.assert_array_equal(got, x)


@pytest.mark.parametrize("types", [("float16", "float16", "float32"), ("float16", "float32", "float32")])
def test_statistics_wider_than_the_input(device: DeviceName, types: tuple[str, str, str]) -> None:
    """Opset 15: the variance is beyond float16."""
    image, factors, statistics = types
    x = np.array([[[1000, -500]], [[0, 250]]], image)
    scale, bias = np.array([2], factors), np.array([0.5], factors)
    mean, variance = np.array([100], statistics), np.array([250000], statistics)
    inputs = {"x": x, "scale": scale, "bias": bias, "mean": mean, "variance": variance}
    (got,) = results("BatchNormalization", inputs, device, opset=15)
    assert got.dtype == x.dtype
    expected = (x.astype(np.float64) - 100) / math.sqrt(250000 + 1e-5) * 2 + 0.5
    np.testing.assert_allclose(got, expected, 1e-3)


def test_training_statistics_of_float16(device: DeviceName) -> None:
    """ONNX computes those of a batch in float32."""
    x = np.array([[[3000, -3000, 0, 1000]]], np.float16)
    inputs: dict[str, Array] = {
        "x": x,
        "scale": np.array([2], np.float16),
        "bias": np.array([0.5], np.float16),
        "mean": np.array([10], np.float32),
        "variance": np.array([100], np.float32),
    }
    got, mean, variance = results("BatchNormalization", inputs, device, opset=15, count=3, training_mode=1)
    wide = x.astype(np.float64)
    expected = (wide - wide.mean()) / math.sqrt(wide.var() + 1e-5) * 2 + 0.5
    assert (got.dtype, mean.dtype, variance.dtype) == (x.dtype, np.float32, np.float32)
    np.testing.assert_allclose(got, expected, 2e-3)
    np.testing.assert_allclose(mean, [0.9 * 10 + 0.1 * wide.mean()], 1e-5)
    np.testing.assert_allclose(variance, [0.9 * 100 + 0.1 * wide.var()], 1e-5)


@pytest.mark.parametrize("p", [1, 2])
def test_a_norm_beyond_float16(device: DeviceName, p: int) -> None:
    x = np.array([[30000, 40000, 20000]], np.float16)
    (got,) = results("LpNormalization", {"x": x}, device, p=p)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(got, wide / (np.abs(wide) ** p).sum() ** (1 / p), 1e-3)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "int8", "uint8", "int64"])
@pytest.mark.parametrize("bias", [0.0, 0.75, -1.5, 2.0])
@pytest.mark.parametrize("threshold", [-1.5, -0.5, 0.0, 1.5])
def test_shrink(device: DeviceName, threshold: float, bias: float, dtype: str) -> None:
    """The lower side comes first, which matters if lambd is negative; integers are cut, and wrap."""
    kept = [0, 1, 2, 3, 5] if dtype == "uint8" else [-5, -3, -2, -1, 0, 1, 2, 3, 5]
    x = np.array([*kept, -1.25, 0.25, NAN] if dtype.startswith("float") else kept, dtype)
    (got,) = results("Shrink", {"x": x}, device, lambd=threshold, bias=bias)
    wide = x.astype(np.float64)
    expected = np.where(wide < -threshold, wide + bias, np.where(wide > threshold, wide - bias, 0))
    if dtype == "uint8":
        expected = expected.astype(np.int64) % 256
    assert got.dtype == x.dtype
    np.testing.assert_array_equal(got, expected.astype(dtype))


@pytest.mark.parametrize("auto", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize(("stride", "extra", "dilation", "group"), [(2, 1, 1, 1), (3, 1, 1, 2), (3, 2, 2, 1)])
def test_transposed_convolution_of_the_same_size(
    device: DeviceName, auto: str, stride: int, extra: int, dilation: int, group: int
) -> None:
    random = np.random.default_rng(stride)
    inputs = {
        "x": random.normal(size=(1, 2 * group, 3, 4)).astype(np.float32),
        "w": random.normal(size=(2 * group, 2, 3, 3)).astype(np.float32),
        "b": random.normal(size=2 * group).astype(np.float32),
    }
    fields: dict[str, Any] = {
        "auto_pad": auto,
        "strides": [stride, stride],
        "output_padding": [extra, extra],
        "dilations": [dilation, dilation],
        "group": group,
    }
    model = model_of("ConvTranspose", inputs, opset=11, **fields)
    (expected,) = session(model.SerializeToString(), optimized=False)(inputs).values()
    (got,) = results("ConvTranspose", inputs, device, opset=11, **fields)
    np.testing.assert_allclose(got, expected, 1e-5, 1e-5)
