"""Asinh, Acosh and Atanh next to NumPy's in float64, from the least numbers to the greatest."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from support.onnx.one_node import DEVICES, Array, model_of, results

from dmlgraph.devices.names import DeviceName

INF, NAN = np.inf, np.nan
NORMAL, GREATEST = 1.2e-38, 3.4028235e38
SPREAD = np.geomspace(NORMAL, GREATEST, 3001).astype(np.float32)
UNIT = np.nextafter(np.float32(1), np.float32(0))
EDGES = np.array([0, 0.25, 0.5, 1, UNIT, 2, 4095.9, 4096, 1.8e19, 1.9e19, INF, NAN], np.float32)
NUMBERS = np.concatenate([SPREAD, -SPREAD, EDGES, -EDGES, 1 + np.geomspace(1e-7, 10, 500, dtype=np.float32)])
FUNCTIONS = {"Asinh": np.arcsinh, "Acosh": np.arccosh, "Atanh": np.arctanh}

pytestmark = pytest.mark.usefixtures("directml_path")


def expected(operator: str, x: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(FUNCTIONS[operator](x.astype(np.float64)))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("operator", FUNCTIONS)
def test_every_magnitude(operator: str, device: DeviceName) -> None:
    (got,) = results(operator, {"x": NUMBERS}, device)
    np.testing.assert_allclose(got.astype(np.float64), expected(operator, NUMBERS), rtol=5e-7)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("operator", FUNCTIONS)
def test_every_float16(operator: str, device: DeviceName) -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    (got,) = results(operator, {"x": x}, device)
    wanted = expected(operator, x).astype(np.float16)
    np.testing.assert_array_max_ulp(np.nan_to_num(got), np.nan_to_num(wanted), 1)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected(operator, x)))


@pytest.mark.parametrize("operator", FUNCTIONS)
def test_it_is_near_the_runtime(operator: str) -> None:
    x = NUMBERS if operator == "Asinh" else np.abs(NUMBERS[np.abs(NUMBERS) < 1]) + (operator == "Acosh")
    session = onnxruntime.InferenceSession(model_of(operator, {"x": x}).SerializeToString())
    (runtime,) = session.run(None, {"x": x})
    (got,) = results(operator, {"x": x}, "cpu")
    np.testing.assert_allclose(got, runtime, rtol=1e-6)
