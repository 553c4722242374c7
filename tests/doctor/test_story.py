"""The whole way: a decoder of an ONNX model in float16 whose fused normalizations one driver computes wrong."""

from __future__ import annotations

import pathlib

import numpy as np
import onnx
from onnx import TensorProto as Types
from support.faulty_device import Call, faulty
from support.onnx import language_models

import dmlgraph as dg
from dmlgraph.devices import choose
from dmlgraph.doctor import reproducer
from dmlgraph.doctor.diagnosis import diagnose
from dmlgraph.doctor.trials import Trials, near_as_a_whole
from dmlgraph.graph.nodes import OperatorNode
from dmlgraph.measure.diff import Side, diff
from dmlgraph.measure.ulp import Tolerance

NORM = "mean_variance_normalization2"


def in_float16(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with all floats in 16 bits, as builders write it for GPUs."""
    for weights in model.graph.initializer:
        if weights.data_type == Types.FLOAT:
            array = onnx.numpy_helper.to_array(weights).astype(np.float16)
            weights.CopyFrom(onnx.numpy_helper.from_array(array, weights.name))
    for info in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        if info.type.tensor_type.elem_type == Types.FLOAT:
            info.type.tensor_type.elem_type = Types.FLOAT16
    return model


def is_wrong(call: Call) -> bool:
    """The fused normalization, which the model wants in float32 between casts."""
    return call.operator.name == NORM


def test_a_decoder_whose_normalizations_are_wrong(tmp_path: pathlib.Path) -> None:
    onnx.save_model(in_float16(language_models.genai()), tmp_path / "model.onnx")
    graph = dg.load(tmp_path / "model.onnx", states="auto", dims={"batch": 1, "tokens": 3, "capacity": 8})
    inputs = {"input_ids": np.arange(3, dtype=np.int64).reshape(1, 3)}
    device = faulty(is_wrong)
    assert sum(isinstance(each, OperatorNode) and each.operator.name == NORM for each in graph.nodes) == 5

    sides = (Side(choose("reference"), fuse=False), Side(device, fuse=False))
    first = diff(graph, sides, inputs, Tolerance(64, 2e-2, 2e-2)).first
    assert first is not None
    found = diagnose(graph, first.node, inputs, device)

    assert found.operator.name == NORM
    assert found.case is not None
    assert found.outcome is not None
    text = reproducer.text(found.case.graph, found.case.inputs, found.outcome)
    assert len(text.splitlines()) < 20
    assert "model" not in text
    assert found.treatment.best is not None
    assert found.treatment.best.way.name == "decomposed"
    assert len(found.treatment.best.workaround.nodes) == 5  # they are wrong together
    found.treatment.graph().save(tmp_path / "model.yaml")

    again, trials = dg.load(tmp_path / "model.yaml"), Trials(faulty(is_wrong))
    assert trials.run(again, inputs, near_as_a_whole).is_right
    assert trials.run(graph, inputs, near_as_a_whole).is_wrong
    names = [sorted(node.name for node in each.compile("cpu").graph.nodes) for each in (again, graph)]
    assert names[0] == names[1]  # elsewhere it is the graph as it was
