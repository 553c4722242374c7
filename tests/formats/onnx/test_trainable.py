"""Weights of a model that become states, are trained and written back under their own names."""

from __future__ import annotations

import copy
import pathlib
from typing import Any

import numpy as np
import onnx
import pytest
from support.onnx.onnx_runtime import session
from support.problems import raises

import dmlgraph as dg
from dmlgraph.formats.safetensors import Archive

Array = np.ndarray[Any, Any]
RANDOM = np.random.default_rng(0)
WEIGHTS: dict[str, Array] = {
    "conv.weight": RANDOM.normal(size=(4, 2, 3, 3)).astype(np.float32),
    "norm.weight": np.ones(4, np.float32),
    "norm.bias": np.zeros(4, np.float32),
    "norm.mean": np.zeros(4, np.float32),
    "norm.variance": np.ones(4, np.float32),
    "head.weight": RANDOM.normal(size=(5, 4)).astype(np.float32),
    "head.bias": np.zeros(5, np.float32),
    "order.weight": np.arange(5)[::-1].copy(),
}
TEXT = """<ir_version: 10, opset_import: ["" : 21]> g (float[3, 2, 6, 6] x) => (float[3, 5] y) {
    c = Conv <pads = [1, 1, 1, 1]> (x, conv.weight)
    n = BatchNormalization (c, norm.weight, norm.bias, norm.mean, norm.variance)
    r = Relu (n)
    p = GlobalAveragePool (r)
    f = Flatten (p)
    l = Gemm <transB = 1> (f, head.weight, head.bias)
    y = Gather <axis = 1> (l, order.weight)
}"""


@pytest.fixture
def model(tmp_path: pathlib.Path) -> pathlib.Path:
    made = onnx.parser.parse_model(
        TEXT.replace(".weight", "_weight").replace("norm.", "norm_").replace("head.", "head_")
    )
    for node in made.graph.node:  # ONNX's syntax has no dots in names
        for place, name in enumerate(node.input):
            node.input[place] = name.replace("_", ".")
    made.graph.initializer.extend(onnx.numpy_helper.from_array(each, name) for name, each in WEIGHTS.items())
    onnx.save_model(made, tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def trained(g: dg.Graph) -> tuple[Any, Array, list[float]]:
    """What was trained, an input, and the losses."""
    training = copy.copy(g)
    labels = training.input("labels", sizes=[3], dtype="int32")
    loss = dg.losses.softmax_cross_entropy(training.outputs["y"], labels)
    training.output("loss", loss)
    training.minimize(loss, ["*"], optimizer=dg.Adam(0.05))
    exe = training.compile("cpu")
    x = np.random.default_rng(1).normal(size=(3, 2, 6, 6)).astype(np.float32)
    losses = exe.run({"x": x, "labels": np.arange(3, dtype=np.int32)}, steps=20, collect=["loss"])["loss"]
    return exe, x, losses.ravel().tolist()


def test_the_model_is_trained_and_written_back(model: pathlib.Path) -> None:
    g = dg.load(model, trainable=["*.weight"])
    trainable = ["conv.weight", "norm.weight", "head.weight"]
    assert [state.name for state in g.states] == trainable  # order.weight are indices
    exe, x, losses = trained(g)
    assert losses[-1] < losses[0] / 2
    dg.save(g.with_states(exe.states), model.parent / "tuned.onnx")
    tuned = onnx.load(model.parent / "tuned.onnx")
    found = {each.name: onnx.numpy_helper.to_array(each) for each in tuned.graph.initializer}
    assert [each.name for each in tuned.graph.input] == ["x"]
    for name in trainable:
        np.testing.assert_array_equal(found[name], exe.states[name], err_msg=name)
        assert not np.array_equal(found[name], WEIGHTS[name]), name
    for name in ("norm.bias", "norm.mean", "norm.variance", "head.bias"):
        np.testing.assert_array_equal(found[name], WEIGHTS[name], err_msg=name)
    expected = session(tuned.SerializeToString())({"x": x})["y"]
    evaluated = g.compile("cpu").run({"x": x}, states=exe.states)["y"]
    np.testing.assert_allclose(evaluated, expected, rtol=1e-5, atol=1e-6)
    again = dg.load(model.parent / "tuned.onnx", trainable=["*.weight"])
    assert sorted(state.name for state in again.states) == sorted(trainable)


def test_a_weight_that_is_an_input_may_be_given_a_value(model: pathlib.Path) -> None:
    made = onnx.load(model)
    made.graph.input.append(onnx.helper.make_tensor_value_info("head.weight", onnx.TensorProto.FLOAT, [5, 4]))
    onnx.save_model(made, model)
    value = np.full((5, 4), 0.5, np.float32)
    g = dg.load(model, trainable=["head.weight"], values={"head.weight": value})
    np.testing.assert_array_equal(g.compile("reference").states["head.weight"], value)


def test_states_are_saved_under_the_names_of_the_model(model: pathlib.Path) -> None:
    exe, _, _ = trained(dg.load(model, trainable=["head.*"]))
    file = model.parent / "weights.safetensors"
    exe.states.save(file)
    archive = Archive(file, file.name)
    assert {"head.weight", "head.bias"} == {name for name in archive.entries if not name.startswith("optimizer/")}
    np.testing.assert_array_equal(archive.read("head.weight"), exe.states["head.weight"])


@pytest.mark.parametrize(
    ("trainable", "code", "field", "got"),
    [
        (["*.kernel"], "unknown-name", "trainable.0", "*.kernel"),
        (["conv.weights"], "unknown-name", "trainable.0", "conv.weights"),
        (["order.weight"], "dtype", "trainable.order.weight", "INT64"),
        (["order*"], "dtype", "trainable", "order.weight"),
        ("*.weight", "kind", "trainable", "*.weight"),
    ],
)
def test_what_cannot_be_trained_is_refused(
    model: pathlib.Path, trainable: Any, code: str, field: str, got: object
) -> None:
    with raises(dg.ModelError, code, node="weights", field=field, got=got):
        dg.load(model, trainable=trainable)


def test_quantized_weights_are_refused_by_name(tmp_path: pathlib.Path) -> None:
    made = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 21]> g (float[2, 2] x) => (float[2, 2] y)
        <int8[2, 2] weight = {1, 2, 3, 4}, float scale = {0.5}> {
            w = DequantizeLinear (weight, scale)
            y = MatMul (x, w)
        }"""
    )
    onnx.save_model(made, tmp_path / "model.onnx")
    hint = "name floats alone: scale; lora (dg.add_lora) trains a pair of small matrices beside it"
    with raises(dg.ModelError, "dtype", node="weights", field="trainable.weight", got="INT8", hint=hint):
        dg.load(tmp_path / "model.onnx", trainable=["*"])
