"""Inputs of operators whose rank or sizes ONNX forbids; ONNX Runtime refuses these nodes, too."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import dmlgraph as dg

X, VECTOR = (1, 3, 4, 4), (3,)
ENDS_RUNTIME = "Split, 2 of 3"  # ONNX's shape inference, which ONNX Runtime calls, reads beyond a vector


def known(operator: str, array: Any, x: tuple[int, ...] | None = (2, 3)) -> dict[str, Any]:
    return {"operator": operator, "shapes": [] if x is None else [x], "known": np.array(array, np.int64)}


CASES: dict[str, dict[str, Any]] = {
    **{
        f"BatchNormalization, input {index}, {shape}": {
            "operator": "BatchNormalization",
            "shapes": [X, *(shape if each == index else VECTOR for each in range(1, 5))],
        }
        for index in range(1, 5)
        for shape in [(3, 1), (), (4,), (1, 3, 1, 1)]
    },
    **{
        f"InstanceNormalization, input {index}, {shape}": {
            "operator": "InstanceNormalization",
            "shapes": [X, *(shape if each == index else VECTOR for each in range(1, 3))],
        }
        for index in range(1, 3)
        for shape in [(3, 1), (), (2,)]
    },
    "ReduceSum, axes of rank 2": known("ReduceSum", [[0]]),
    "ReduceMax, axes of rank 0": known("ReduceMax", 0),
    "EyeLike of rank 3": {"operator": "EyeLike", "shapes": [(2, 3, 4)]},
    "EyeLike of rank 1": {"operator": "EyeLike", "shapes": [(2,)]},
    "Split, 2 of 3": {"operator": "Split", "shapes": [(6,)], "outputs": 3, "num_outputs": 2},
    "Split, parts that differ": {"operator": "Split", "shapes": [(7,)], "outputs": 3, "opset": 13},
    "Split, 4 of 3": {"operator": "Split", "shapes": [(6,)], "outputs": 3, "num_outputs": 4},
    "Expand": known("Expand", [[2], [3]]),
    "Reshape": known("Reshape", [[3], [2]]),
    "Reshape to a scalar": known("Reshape", -1),
    "Tile": known("Tile", [[1], [2]]),
    "ConstantOfShape": known("ConstantOfShape", [[1], [2]], None),
    "ConstantOfShape of a scalar": known("ConstantOfShape", 3, None),
    "Conv, another kernel": {"operator": "Conv", "shapes": [X, (2, 3, 3, 3)], "kernel_shape": [2, 3]},
    "ConvTranspose, another kernel": {"operator": "ConvTranspose", "shapes": [X, (3, 2, 3, 3)], "kernel_shape": [3, 2]},
}


def model_of(
    operator: str, shapes: list[Any], known: Any = None, outputs: int = 1, opset: int = 20, **attributes: Any
) -> onnx.ModelProto:
    inputs = [f"x{index}" for index in range(len(shapes))]
    weights = [] if known is None else [onnx.numpy_helper.from_array(known, "k")]
    results = [f"y{index}" for index in range(outputs)]
    node = helper.make_node(operator, [*inputs, *(["k"] if weights else [])], results, name="n", **attributes)
    infos = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, each) for name, each in zip(inputs, shapes, strict=True)
    ]
    made = [helper.make_empty_tensor_value_info(name) for name in results]
    graph = helper.make_graph([node], "g", infos, made, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


@pytest.mark.parametrize("what", CASES)
def test_inputs_that_onnx_forbids_are_refused(what: str, tmp_path: pathlib.Path) -> None:
    model = model_of(**CASES[what])
    onnx.save_model(model, tmp_path / "model.onnx")
    with pytest.raises(dg.ModelError) as caught:
        dg.load(tmp_path / "model.onnx")
    assert caught.value.node == "n"
    assert caught.value.code in ("rank", "sizes", "count")
    assert caught.value.allowed is not None
    if what == ENDS_RUNTIME:
        return
    for each in model.graph.initializer:  # which ONNX Runtime then does not fold
        model.graph.input.append(helper.make_tensor_value_info(each.name, each.data_type, each.dims))
    feeds = {
        each.name: np.ones([d.dim_value for d in each.type.tensor_type.shape.dim], np.float32)
        for each in model.graph.input
        if each.name != "k"
    }
    with pytest.raises(Exception, match="ONNXRuntimeError"):  # its classes are of many kinds
        onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)
