"""Determinants and bits, next to NumPy."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from support.problems import raises

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName

Array = np.ndarray[Any, Any]
DEVICES = ["reference", "cpu", "directml:software"]

pytestmark = pytest.mark.usefixtures("directml_path")


def loaded(operator: str, x: Array, dtype: Any, folder: pathlib.Path, **attributes: Any) -> dg.Graph:
    node = helper.make_node(operator, ["x"], ["y"], "made", **attributes)
    given, made = (
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(kind)), shape)
        for name, kind, shape in (("x", x.dtype, x.shape), ("y", dtype, None))
    )
    path = folder / "model.onnx"
    graph = helper.make_graph([node], "model", [given], [made])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 26)], ir_version=13), path)
    return dg.load(path, target="6.2")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (3, 3), (4, 3, 3), (2, 3, 1, 1)], ids=str)
def test_determinants(shape: tuple[int, ...], device: DeviceName, tmp_path: pathlib.Path) -> None:
    x = np.random.default_rng(len(shape)).normal(0, 1, shape).astype(np.float32)
    got = loaded("Det", x, np.float32, tmp_path).compile(device=device).run({"x": x})["y"]
    np.testing.assert_allclose(got.reshape(shape[:-2]), np.linalg.det(x.astype(np.float64)), 1e-4, 1e-5)


def test_a_larger_determinant_is_refused(tmp_path: pathlib.Path) -> None:
    with raises(dg.ModelError, "unsupported", node="made", field="input 0", got=[4, 4], allowed="3 rows"):
        loaded("Det", np.zeros((4, 4), np.float32), np.float32, tmp_path)


PAIRS = [
    (f"{sign}int{bits}", f"{other}int{bits}") for bits in (8, 16, 32, 64) for sign, other in (("", "u"), ("u", ""))
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("given", "wanted"), PAIRS, ids=map("-".join, PAIRS))
def test_the_bits_of_integers(given: str, wanted: str, device: DeviceName, tmp_path: pathlib.Path) -> None:
    info = np.iinfo(given)
    x = np.array([info.min, info.min + 1, 0, 1, 100, info.max // 2 + 1, info.max - 1, info.max], given)
    to = helper.np_dtype_to_tensor_dtype(np.dtype(wanted))
    got = loaded("BitCast", x, wanted, tmp_path, to=to).compile(device=device).run({"x": x})["y"]
    assert got.dtype == wanted
    np.testing.assert_array_equal(got, x.view(wanted))


def test_the_bits_of_floats_are_refused(tmp_path: pathlib.Path) -> None:
    with raises(dg.ModelError, "unsupported", node="made", field="to", got="int32") as caught:
        loaded("BitCast", np.zeros(3, np.float32), np.int32, tmp_path, to=onnx.TensorProto.INT32)
    assert "values={'x'" in (caught.value.problems[0].hint or "")
