"""Operators at a level that lacks DirectML's newest version of them, on every device, against ONNX Runtime."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import onnx
import pytest
from support.onnx.onnx_runtime import session

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName

LEVEL = "4.1"
RESIZE = 'Resize <mode = "{}", coordinate_transformation_mode = "{}", nearest_mode = "{}"> (x, , s)'
CASES = {
    "clip": "Clip (x, low, high)",
    "padding": "Pad (x, pads, low)",
    "average_pooling": "AveragePool <kernel_shape = [2, 3], strides = [1, 2], pads = [1, 1, 0, 1]> (x)",
    "lp_pooling": "LpPool <kernel_shape = [2, 2]> (x)",
    "activation_softmax": "Softmax <axis = 3> (x)",
    "activation_log_softmax": "LogSoftmax <axis = 1> (x)",
    "activation_hardmax": "Hardmax <axis = 2> (x)",
    "resample1, linear": RESIZE.format("linear", "half_pixel", "floor"),
    "resample1, floor": RESIZE.format("nearest", "asymmetric", "floor"),
    "resample1, floor at half pixels": RESIZE.format("nearest", "half_pixel", "floor"),
    "resample1, nearest": RESIZE.format("nearest", "half_pixel", "round_prefer_ceil"),
    "resample1, nearest at corners": RESIZE.format("nearest", "align_corners", "round_prefer_ceil"),
}
REFUSED = {
    "AVERAGE_POOLING1": "AveragePool <kernel_shape = [2, 2], dilations = [2, 1]> (x)",
    "RESAMPLE2": RESIZE.format("nearest", "asymmetric", "ceil"),
}


def save(folder: pathlib.Path, node: str, scales: str = "1, 1, 2, 3") -> pathlib.Path:
    """A model of one node that reads x, float [2, 3, 4, 5], and constants."""
    text = f"""<ir_version: 8, opset_import: ["" : 19]> g (float[2, 3, 4, 5] x) => (float[a, b, c, d] y)
        <float low = {{-0.5}}, float high = {{0.75}}, int64[8] pads = {{0, 1, 2, 0, 0, 0, 1, 3}},
         float[4] s = {{{scales}}}> {{ y = {node} }}"""
    onnx.save_model(onnx.parser.parse_model(text), folder / "model.onnx")
    return folder / "model.onnx"


def operators(graph: dg.Graph) -> set[str]:
    return {node.operator.name for node in graph.nodes if hasattr(node, "operator")} - {"reshape", "transpose"}


@pytest.mark.parametrize("device", ["reference", "cpu", "directml:software"])
@pytest.mark.parametrize("scales", ["1, 1, 2, 3", "1, 1, 0.5, 1.4"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.usefixtures("directml_path")
def test_the_earlier_version_gives_what_onnx_runtime_gives(
    name: str, scales: str, device: DeviceName, tmp_path: pathlib.Path
) -> None:
    path = save(tmp_path, CASES[name], scales)
    graph = dg.load(path, target=LEVEL)
    assert operators(graph) == {name.partition(",")[0]}
    x = np.random.default_rng(0).normal(size=(2, 3, 4, 5)).astype(np.float32)
    (got,) = graph.compile(device).run({"x": x}).values()
    np.testing.assert_allclose(got, session(path)({"x": x})["y"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_the_newest_version_is_used_where_the_level_has_it(name: str, tmp_path: pathlib.Path) -> None:
    assert name.partition(",")[0] not in operators(dg.load(save(tmp_path, CASES[name])))


@pytest.mark.parametrize(("operator", "node"), REFUSED.items())
def test_what_only_the_newest_version_can_is_refused(operator: str, node: Any, tmp_path: pathlib.Path) -> None:
    with pytest.raises(dg.ModelError, match=f"{operator} does not exist at feature level {LEVEL}"):
        dg.load(save(tmp_path, node), target=LEVEL)
