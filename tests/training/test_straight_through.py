"""Rounding as the identity: gradients through what is quantized, beside JAX's, and training of an imported network."""

from __future__ import annotations

import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from onnx import helper

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName

Array = np.ndarray[Any, Any]
WEIGHTS: dict[str, Array] = {
    "w": np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32),
    "w.scale": np.array([0.05, 0.002, 0.1, 0.03], np.float32),  # the second one clamps weights
    "w.zero": np.zeros(4, np.int8),
    "x.scale": np.array(0.02, np.float32),
    "x.zero": np.array(3, np.uint8),
}
X = np.array([[1.03, -0.5, 2.26], [6, 0.11, 0.21]], np.float32)  # −0.5 and 6 are clamped
TARGET = np.arange(8, dtype=np.float32).reshape(2, 4)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A product of an input and weights in floats, both quantized and turned back, as training for integers leaves."""
    along: dict[str, Any] = {"axis": 1}
    nodes = [
        helper.make_node(operator, [*given, scale, zero], [result], **axis)
        for given, scale, zero, axis, name in (
            (["x"], "x.scale", "x.zero", {}, "x"),
            (["w"], "w.scale", "w.zero", along, "w"),
        )
        for operator, given, result in (
            ("QuantizeLinear", given, f"{name}.integers"),
            ("DequantizeLinear", [f"{name}.integers"], f"{name}.again"),
        )
    ]
    nodes.append(helper.make_node("MatMul", ["x.again", "w.again"], ["y"]))
    kind = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "quantized",
        [helper.make_tensor_value_info("x", kind, [2, 3])],
        [helper.make_tensor_value_info("y", kind, [2, 4])],
        [onnx.numpy_helper.from_array(array, name) for name, array in WEIGHTS.items()],
    )
    path = tmp_path_factory.mktemp("model") / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


TRAINED = ["w", "w.scale", "x.scale"]


def loss(w: Any, w_scale: Any, x_scale: Any, x: Any) -> Any:
    """The sum of squares of the errors, in JAX."""

    def steps(v: Any) -> Any:
        return v + jax.lax.stop_gradient(jnp.round(v) - v)

    again = (jnp.clip(steps(x / x_scale) + 3, 0, 255) - 3) * x_scale
    return ((again @ (jnp.clip(steps(w / w_scale), -128, 127) * w_scale) - TARGET) ** 2).sum()


@pytest.fixture(scope="module")
def expected() -> list[Array]:
    """The derivatives of the loss by the trained and by x, in JAX."""
    found = jax.jit(jax.grad(loss, range(4)))(*(WEIGHTS[name] for name in TRAINED), X)
    return [np.asarray(each) for each in found]


def errors(graph: dg.Graph) -> dg.Value:
    return dg.reduce(dg.difference_square(graph.outputs["y"], graph.constant("target", TARGET)), function="sum")


@pytest.mark.parametrize("device", ["reference", "cpu", "directml:software"])
@pytest.mark.usefixtures("directml_path")
def test_gradients_of_a_quantized_network_are_jaxs(
    model: pathlib.Path, expected: list[Array], device: DeviceName
) -> None:
    graph = dg.load(model, trainable=TRAINED)
    names = [*TRAINED, "x"]
    values = [graph.value(name) for name in names]
    for name, found in zip(names, dg.gradient(errors(graph), values, straight_through=True), strict=True):
        graph.output(f"d {name}", found)
    results = graph.compile(device).run({"x": X})
    for name, wanted in zip(names, expected, strict=True):
        np.testing.assert_allclose(results[f"d {name}"], wanted.reshape(results[f"d {name}"].shape), rtol=2e-4)
    clamped = abs(np.round(WEIGHTS["w"] / WEIGHTS["w.scale"])) > 128
    assert clamped.any()
    np.testing.assert_array_equal(results["d w"] == 0, clamped)
    np.testing.assert_array_equal(results["d x"] == 0, [[0, 1, 0], [1, 0, 0]])


def test_without_it_steps_have_no_gradient(model: pathlib.Path) -> None:
    graph = dg.load(model, trainable=["w"])
    graph.output("d", *dg.gradient(errors(graph), [graph.value("w")]))
    assert not graph.compile("reference").run({"x": X})["d"].any()


def test_a_file_asks_for_it(model: pathlib.Path, expected: list[Array]) -> None:
    path = model.with_name("how.yaml")
    path.write_text(
        "training:\n"
        "  loss: {op: mean_squared_error, predictions: y, targets: target}\n"
        "  parameters: [w]\n"
        "  optimizer: {op: sgd, rate: 0.1}\n"
        "  straight_through: true\n",
        "utf-8",
    )
    graph = dg.load(model, training=path)
    training = graph.origin.training
    assert training.plain()["straight_through"] is True
    step, _ = training.step(training.model(graph))
    exe = step.compile("cpu")
    exe.run({"x": X, "target": TARGET})
    np.testing.assert_allclose(exe.states["w"], WEIGHTS["w"] - 0.1 * expected[0] / TARGET.size, rtol=1e-5)


def test_rounding_and_readers_of_several_kinds() -> None:
    graph = dg.Graph("several")
    x = graph.input("x", sizes=[3], dtype="float32")
    scale = graph.constant("scale", np.array([0.5], np.float32))
    steps = dg.quantize_linear(x, scale, dtype="int8")
    two = graph.constant("two", np.array([2], np.float32))
    again, twice = (dg.dequantize_linear(steps, each) for each in (scale, two))
    other = dg.cast(dg.quantize_linear(x, scale, dtype="int8", name="counted"), dtype="float32")
    total = again * graph.constant("factors", np.array([1, 2, 3], np.float32)) + twice + dg.round(x * 4) * x + other
    loss = dg.reduce(total, function="sum")
    graph.output("d", *dg.gradient(loss, [x], straight_through=True))
    found = graph.compile("reference").run({"x": np.array([0.3, -1.1, 100], np.float32)})["d"]
    # again: 1, 2, 3; twice: 2 / 0.5; round(4x) · x: 4x + round(4x); integers that are read as such: 0.  200 is clamped.
    np.testing.assert_allclose(found, [1 + 4 + 1.2 + 1, 2 + 4 - 4.4 - 4, 400 + 400], rtol=1e-6)
