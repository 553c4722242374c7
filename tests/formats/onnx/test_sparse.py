"""Sparse tensors of models: those that are not 0, and where they are."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.problems import raises

import dmlgraph as dg
from dmlgraph.formats.onnx import message

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def sparse(values: Any, indices: Any, shape: list[int], dtype: Any = np.float32) -> onnx.SparseTensorProto:
    return helper.make_sparse_tensor(
        numpy_helper.from_array(np.array(values, dtype), "w"),
        numpy_helper.from_array(np.array(indices, np.int64)),
        shape,
    )


def as_initializer(each: onnx.SparseTensorProto) -> onnx.ModelProto:
    made = model([helper.make_node("Add", ["x", "w"], ["y"])])
    made.graph.sparse_initializer.append(each)
    return made


def as_attribute(each: onnx.SparseTensorProto) -> onnx.ModelProto:
    nodes = [helper.make_node("Constant", [], ["w"], sparse_value=each), helper.make_node("Add", ["x", "w"], ["y"])]
    return model(nodes)


def model(nodes: list[onnx.NodeProto]) -> onnx.ModelProto:
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", infos[:1], infos[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("place", [as_initializer, as_attribute])
@pytest.mark.parametrize("indices", [[1, 3, 5], [[0, 1], [1, 0], [1, 2]]], ids=["linear", "by axis"])
def test_sparse_tensors_are_read(place: Any, indices: Any, tmp_path: pathlib.Path) -> None:
    made = place(sparse([10, 20, 30], indices, [2, 3]))
    onnx.save_model(made, tmp_path / "model.onnx")
    result = dg.load(tmp_path / "model.onnx").compile("reference").run({"x": X})["y"]
    np.testing.assert_array_equal(result, X + np.array([[0, 10, 0], [20, 0, 30]]))
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(result, session.run(None, {"x": X})[0])


def test_a_sparse_tensor_without_numbers_is_0(tmp_path: pathlib.Path) -> None:
    onnx.save_model(as_initializer(sparse([], [], [2, 3])), tmp_path / "model.onnx")
    np.testing.assert_array_equal(dg.load(tmp_path / "model.onnx").compile("reference").run({"x": X})["y"], X)


DAMAGED = {
    "an index lies outside": sparse([1], [6], [2, 3]),
    "outside of its shape": sparse([1], [[0, 3]], [2, 3]),
    "of its shape": sparse([1], [[-1, 0]], [2, 3]),
    "an index occurs twice": sparse([1, 2], [[0, 1], [0, 1]], [2, 3]),
    "another type or shape": sparse([1, 2], [1], [2, 3]),
    "than its values need": sparse([1], [[1, 1, 1]], [2, 3]),
    "a negative size": sparse([1], [1], [-2, 3]),
    "too large": sparse([1], [1], [1 << 30, 1 << 30]),
    "not read": helper.make_sparse_tensor(
        numpy_helper.from_array(np.array([b"a"], object), "w"), numpy_helper.from_array(np.array([1])), [2, 3]
    ),
}


@pytest.mark.parametrize("place", [as_initializer, as_attribute])
@pytest.mark.parametrize("what", DAMAGED)
def test_a_sparse_tensor_that_is_damaged_is_refused_by_name(what: str, place: Any, tmp_path: pathlib.Path) -> None:
    onnx.save_model(place(DAMAGED[what]), tmp_path / "model.onnx")
    with pytest.raises(dg.ModelError, match=what) as caught:
        dg.load(tmp_path / "model.onnx")
    assert caught.value.node == "w"


def test_the_numbers_of_all_sparse_tensors_together_are_limited(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message, "MOST_DENSE", 10)
    made = as_initializer(sparse([1], [1], [2, 3]))
    onnx.save_model(made, tmp_path / "model.onnx")
    dg.load(tmp_path / "model.onnx")
    made.graph.sparse_initializer.append(sparse([1], [1], [2, 3]))
    made.graph.sparse_initializer[1].values.name = "v"
    onnx.save_model(made, tmp_path / "model.onnx")
    with raises(dg.ModelError, "too-large", got=[2, 3]) as caught:
        dg.load(tmp_path / "model.onnx")
    assert caught.value.node == "v"


def test_other_sparse_attributes_are_refused(tmp_path: pathlib.Path) -> None:
    node = helper.make_node("Relu", ["x"], ["y"], s=sparse([1], [1], [2, 3]))
    onnx.save_model(model([node]), tmp_path / "model.onnx")
    with raises(dg.ModelError, "unknown-field", node="y", field="s"):
        dg.load(tmp_path / "model.onnx")
    node.attribute[0].type = onnx.AttributeProto.SPARSE_TENSORS
    onnx.save_model(model([node]), tmp_path / "model.onnx")
    with raises(dg.ModelError, "unsupported", node="y", field="s"):
        dg.load(tmp_path / "model.onnx")
