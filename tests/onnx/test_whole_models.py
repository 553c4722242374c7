"""ONNX's own light models, with random weights in place of theirs, which are all equal; against ONNX's reference."""

from __future__ import annotations

import pathlib

import numpy as np
import onnx
import onnx.backend.test
import pytest
from onnx.reference import ReferenceEvaluator

import dmlgraph as dg

FOLDER = pathlib.Path(onnx.backend.test.__file__).parent / "data" / "light"
SIZE = 64  # of the images; the models' own is 224, which takes ONNX's reference minutes
BOUND = 1e-4  # of differences, as a part of the greatest result


def with_random_weights(name: str) -> onnx.ModelProto:
    """The model with seeded random numbers for each ConstantOfShape, and smaller images."""
    rng = np.random.default_rng(0)
    model = onnx.load(FOLDER / f"light_{name}.onnx")
    graph = model.graph
    known = {each.name: onnx.numpy_helper.to_array(each) for each in graph.initializer}
    for node in [each for each in graph.node if each.op_type == "ConstantOfShape"]:
        shape = known[node.input[0]]
        scale = np.sqrt(2 / max(np.prod(shape[1:]), 1)) if len(shape) > 1 else 0.1
        weights = (rng.normal(size=shape) * scale).astype(np.float32)
        weights = weights if len(shape) > 1 else np.abs(weights) + np.float32(0.5)  # variances are positive
        graph.initializer.append(onnx.numpy_helper.from_array(weights, node.output[0]))
        graph.node.remove(node)
    names = {each.name for each in graph.initializer}
    for each in [each for each in graph.input if each.name in names]:
        graph.input.remove(each)
    for dim in graph.input[0].type.tensor_type.shape.dim[2:]:
        dim.dim_value = SIZE
    del graph.value_info[:]
    last = graph.node[-1]  # ONNX's reference takes the softmax of old opsets along one axis
    assert last.op_type == "Softmax"
    graph.node.remove(last)
    graph.output[0].CopyFrom(onnx.helper.make_empty_tensor_value_info(last.input[0]))
    return model


@pytest.mark.parametrize("name", ["squeezenet"])
def test_a_light_model_gives_what_onnx_s_reference_gives(name: str, tmp_path: pathlib.Path) -> None:
    model = with_random_weights(name)
    path = tmp_path / f"{name}.onnx"
    onnx.save_model(model, path)
    (slot,) = (graph := dg.load(path)).inputs
    x = np.random.default_rng(1).normal(size=slot.desc.sizes).astype(np.float32)
    (expected,) = ReferenceEvaluator(model).run(None, {slot.name: x})
    for device in ("cpu", "reference"):
        (got,) = graph.compile(device).run({slot.name: x}).values()
        assert got.shape == expected.shape
        assert np.abs(got - expected).max() <= BOUND * np.abs(expected).max()
        assert got.argmax() == expected.argmax()
