"""Values of ONNX Runtime for models that packages ship: the graphs compute them, and a changed weight is found."""

from __future__ import annotations

import pathlib

import numpy as np
import onnxruntime
import pytest

import dmlgraph as dg
from dmlgraph.doctor.find import find
from dmlgraph.doctor.finding import Kind
from dmlgraph.doctor.golden import Golden
from dmlgraph.graph.nodes import ConstantNode
from dmlgraph.measure.onnxruntime import exposing
from dmlgraph.testing import random_inputs

MODELS = {
    "magika": ("magika/models/standard_v3_3/model.onnx", {"bytes[0]": 1}),
    "recogniser": ("rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx", {"x[0]": 1, "x[2]": 48, "x[3]": 64}),
}


@pytest.mark.parametrize("name", MODELS)
def test_values_of_onnx_runtime(name: str, packaged_models: pathlib.Path, tmp_path: pathlib.Path) -> None:
    path, dims = MODELS[name]
    graph = dg.load(packaged_models / path, dims=dims)
    inputs = random_inputs(graph, seed=0)
    exposed = exposing(packaged_models / path, tmp_path)
    session = onnxruntime.InferenceSession(exposed, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_outputs()]
    golden = Golden(dict(zip(names, session.run(names, inputs), strict=True)))
    assert find(graph, "cpu", inputs, against=golden).kind is Kind.SOUND

    weight = next(node for node in graph.nodes if isinstance(node, ConstantNode) and node.desc.element_count > 1000)
    graph.set(weight.name, data=np.asarray(weight.data) * np.float32(1.25))
    finding = find(graph, "cpu", inputs, against=golden)
    assert finding.kind is Kind.RECORDED
    assert weight.name in graph.upstream(finding.node or "")
