"""Normalizations of float16, of which ONNX has the mean and variance computed in float32."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, parser

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName
from dmlgraph.graph.nodes import OperatorNode
from dmlgraph.operators import Cast

Array = np.ndarray[Any, Any]
EPSILON = 1e-3
X = np.array([[3000, 0, 0, 0, 0, 0, 0, 0], [-2000, 60000, 4, 7, 1, 0, 250, 9]], np.float16)
SCALE, BIAS = np.arange(1, 9).astype(np.float16), np.arange(8).astype(np.float16)


def model(call: str, opset: int, sizes: str = "2, 8", stash: int | None = None, domain: str = "") -> onnx.ModelProto:
    """A model of one node; `{}` in the call is where attributes go."""
    fields = f"epsilon = {EPSILON}" + (f", stash_type = {stash}" if stash is not None else "")
    text = f"g (float16[{sizes}] x) => (float16[{sizes}] y) {{ y = {call.format(fields)} }}"
    imports = f'"" : {opset}' + (f', "{domain}" : 1' if domain else "")
    made = parser.parse_model(f"<ir_version: 10, opset_import: [{imports}]> {text}")
    for name, array in (("s", SCALE), ("b", BIAS)):
        if name in call.split("(")[1]:
            count = len(SCALE) if "2, 8" in sizes else 2
            made.graph.initializer.append(helper.make_tensor(name, 10, [count], array[:count]))
    return made


def loaded(made: onnx.ModelProto, folder: pathlib.Path) -> dg.Graph:
    onnx.save(made, folder / "m.onnx")
    return dg.load(folder / "m.onnx")


def normalized(x: Array, axes: int | tuple[int, ...] = -1) -> Array:
    wide = x.astype(np.float64)
    return (wide - wide.mean(axes, keepdims=True)) / np.sqrt(wide.var(axes, keepdims=True) + EPSILON)


def of_groups(x: Array) -> Array:
    """Two groups of one channel each, of {2, 2, 4}."""
    channels = (1, 2, 1)
    return normalized(x.reshape(2, 2, 4)) * SCALE[:2].reshape(channels) + BIAS[:2].reshape(channels)


MICROSOFT = "com.microsoft"
Case = tuple[onnx.ModelProto, Callable[[Array], Array]]
CASES: dict[str, Case] = {
    "layer": (model("LayerNormalization <{}> (x, s, b)", 17), lambda x: normalized(x) * SCALE + BIAS),
    "layer, without a bias": (model("LayerNormalization <{}> (x, s)", 17), lambda x: normalized(x) * SCALE),
    "layer, stash_type 1": (model("LayerNormalization <{}> (x, s)", 17, stash=1), lambda x: normalized(x) * SCALE),
    "layer, before ONNX": (model("LayerNormalization <{}> (x, s, b)", 14), lambda x: normalized(x) * SCALE + BIAS),
    "skip": (
        model("com.microsoft.SkipLayerNormalization <{}> (x, x, s, b)", 17, domain=MICROSOFT),
        lambda x: normalized(2 * x.astype(np.float32)) * SCALE + BIAS,
    ),
    "group": (model("GroupNormalization <num_groups = 2, {}> (x, s, b)", 21, "2, 2, 4"), of_groups),
}  # fmt: skip


def numbers(name: str) -> Array:
    x = X.reshape(2, 2, 4) if name == "group" else X
    return x / np.float16(2) if name == "skip" else x  # so that the sum is a float16


@pytest.mark.usefixtures("directml_path")
@pytest.mark.parametrize("device", ["reference", "cpu", "directml:software"])
@pytest.mark.parametrize("name", list(CASES))
def test_a_variance_beyond_float16(name: str, device: DeviceName, tmp_path: pathlib.Path) -> None:
    made, expected = CASES[name]
    x = numbers(name)
    got = loaded(made, tmp_path).compile(device).run({"x": x})["y"]
    np.testing.assert_allclose(got, expected(x), rtol=4e-3, atol=4e-3)


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_root_mean_squares_beyond_float16(device: DeviceName, tmp_path: pathlib.Path) -> None:
    graph = loaded(model("RMSNormalization <{}> (x, s)", 23), tmp_path)
    wide = X.astype(np.float64)
    expected = wide / np.sqrt(np.square(wide).mean(-1, keepdims=True) + EPSILON) * SCALE
    np.testing.assert_allclose(graph.compile(device).run({"x": X})["y"], expected, rtol=4e-3, atol=4e-3)


@pytest.mark.usefixtures("directml_path")
@pytest.mark.parametrize(
    ("call", "opset", "stash", "dispatches"),
    [
        ("LayerNormalization <{}> (x, s, b)", 17, 1, 5),
        ("LayerNormalization <{}> (x, s, b)", 17, 10, 3),  # TensorProto.FLOAT16
        ("GroupNormalization <num_groups = 2, {}> (x, s, b)", 21, 1, 6),
        ("GroupNormalization <num_groups = 2, {}> (x, s, b)", 21, 10, 4),
    ],
)
def test_it_costs_two_dispatches(call: str, opset: int, stash: int, dispatches: int, tmp_path: pathlib.Path) -> None:
    """The casts of the input and the result; those of the scale and the bias are made at the import."""
    is_group = call.startswith("Group")
    graph = loaded(model(call, opset, "2, 2, 4" if is_group else "2, 8", stash), tmp_path)
    with graph.compile("directml:software") as executable:
        executable.run({"x": numbers("group" if is_group else "layer")})
        assert executable.stats["dispatches"] == dispatches


def test_only_float16_is_cast(tmp_path: pathlib.Path) -> None:
    text = "g (float[2, 8] x, float[8] s, float[8] b) => (float[2, 8] y) { y = LayerNormalization (x, s, b) }"
    float32 = parser.parse_model(f'<ir_version: 10, opset_import: ["" : 17]> {text}')
    assert casts(loaded(float32, tmp_path)) == 0
    assert casts(loaded(CASES["layer"][0], tmp_path)) == 2


def casts(graph: dg.Graph) -> int:
    return sum(isinstance(node, OperatorNode) and isinstance(node.operator, Cast) for node in graph.nodes)
