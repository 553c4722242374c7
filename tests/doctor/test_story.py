"""The whole way: a decoder of an ONNX model in float16 whose fused normalizations one driver computes wrong.

DirectML on the software adapter knows no MEAN_VARIANCE_NORMALIZATION2: the decoder there has layer norms, and with RMS
norms the device of the story is the reference with a fault.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto as Types
from onnx import helper
from support.faulty_device import Call, faulty
from support.onnx import language_models
from support.onnx.exported_nets import in_float16

import dmlgraph as dg
from dmlgraph.devices import choose
from dmlgraph.devices.directml.software import adapter
from dmlgraph.devices.names import DeviceName
from dmlgraph.doctor import reproducer
from dmlgraph.doctor.diagnosis import diagnose
from dmlgraph.doctor.trials import Trials
from dmlgraph.graph.nodes import OperatorNode
from dmlgraph.measure.diff import Side, diff
from dmlgraph.measure.ulp import Tolerance

NORM = "mean_variance_normalization2"
DEVICE: DeviceName = "directml:software"
DIMS = {"batch": 1, "tokens": 3, "capacity": 8}
IDS = {"input_ids": np.arange(3, dtype=np.int64).reshape(1, 3)}


def is_wrong(call: Call) -> bool:
    """The fused normalization, which the model wants in float32 between casts."""
    return call.operator.name == NORM


def test_a_decoder_whose_normalizations_are_wrong(tmp_path: pathlib.Path) -> None:
    onnx.save_model(in_float16(language_models.genai()), tmp_path / "model.onnx")
    graph = dg.load(tmp_path / "model.onnx", states="auto", dims=DIMS)
    device = faulty(is_wrong)
    assert sum(isinstance(each, OperatorNode) and each.operator.name == NORM for each in graph.nodes) == 5

    sides = (Side(choose("reference"), fuse=False), Side(device, fuse=False))
    first = diff(graph, sides, IDS, Tolerance(64, 2e-2, 2e-2)).first
    assert first is not None
    found = diagnose(graph, [first.node], IDS, device)

    assert [each.name for each in found.operators] == [NORM]
    assert found.case is not None
    assert found.outcome is not None
    text = reproducer.text(found.case.graph, found.case.inputs, found.outcome)
    assert len(text.splitlines()) < 20
    assert "model" not in text
    assert found.treatment is not None
    assert found.treatment.best is not None
    assert found.treatment.best.way.name == "decomposed"
    assert len(found.treatment.best.workaround.nodes) == 5  # they are wrong together
    found.treatment.graph().save(tmp_path / "model.yaml")

    again, trials = dg.load(tmp_path / "model.yaml"), Trials(faulty(is_wrong))
    assert trials.run_whole(again, IDS).is_right
    assert trials.run_whole(graph, IDS).is_wrong
    names = [sorted(node.name for node in each.compile("cpu").graph.nodes) for each in (again, graph)]
    assert names[0] == names[1]  # elsewhere it is the graph as it was


def with_layer_norms(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with layer norms, whose sums have the type of the tensor, in place of RMS norms."""
    nodes = list(model.graph.node)
    del model.graph.node[:]
    for node in nodes:
        read = list(node.input)
        if node.op_type == "SkipSimplifiedLayerNormalization":
            skip, x, weight = read
            model.graph.node.append(helper.make_node("Add", [skip, x], [node.output[3]], f"{node.name}/Add"))
            read = [node.output[3], weight]
        elif node.op_type != "SimplifiedLayerNormalization":
            model.graph.node.append(node)
            continue
        fields: dict[str, Any] = {"axis": -1, "epsilon": language_models.EPSILON, "stash_type": Types.FLOAT16}
        model.graph.node.append(helper.make_node("LayerNormalization", read, [node.output[0]], node.name, **fields))
    return model


def shader_of_normalizations() -> str:
    """The shader that begins a normalization in float16, of whatever size; the attention has none of its shaders."""
    fields: dict[str, Any] = {"axes": [1], "normalize_variance": True, "epsilon": 1e-5}
    graph = dg.Graph("norm")
    x = graph.input("x", sizes=[2, 8], dtype="float16")
    graph.output("y", dg.mean_variance_normalization1(x, None, None, **fields))
    planted = adapter.load()
    planted.plant_fault("log")
    try:
        with graph.compile(DEVICE) as executable:
            executable.run({"x": np.ones((2, 8), np.float16)})
        return planted.dispatched("shader")[0]
    finally:
        planted.plant_fault("")


@pytest.mark.skipif(sys.platform != "linux", reason="the software adapter is that of Linux")
def test_one_command_finds_the_way_round(
    directml_path: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(language_models, "LAYERS", 1)
    onnx.save_model(in_float16(with_layer_norms(language_models.genai())), tmp_path / "model.onnx")
    np.save(tmp_path / "ids.npy", IDS["input_ids"])
    fault = f"shader={shader_of_normalizations()},element,float16"
    command = [sys.executable, "-P", "-m", "dmlgraph.cli", "doctor", "model.onnx", "-o", "found", f"--device={DEVICE}"]
    given = [f"--dim={name}={size}" for name, size in DIMS.items()] + ["--state=auto", "--input=input_ids=ids.npy"]
    done = subprocess.run(
        [*command, *given],
        cwd=tmp_path,
        env=os.environ | {"DMLGRAPH_DIRECTML": str(directml_path), "DMLGRAPH_SOFTWARE_FAULT": fault},
        check=False,
        capture_output=True,
        text=True,
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 1, done.stderr
    node = "model/layers.0/input_layernorm/SimplifiedLayerNormalization"
    assert lines[0] == f"directml:software computes '{node}' wrong"
    assert lines[1] == "  mean_variance_normalization1 of float16 [1,3,64]"
    assert "a way round it: float32, with which the whole graph is right" in lines
    case = (tmp_path / "found" / "case.yaml").read_text("utf-8")
    assert len(case.splitlines()) < 20
    assert case.count("op:") == 1

    graph = dg.load(tmp_path / "model.onnx", states="auto", dims=DIMS, target="6.2")
    again = dg.load(tmp_path / "found" / "workaround.yaml")
    adapter.load().plant_fault(fault)
    try:
        trials = Trials(choose(DEVICE))
        assert trials.run_whole(again, IDS).is_right
        assert trials.run_whole(graph, IDS).is_wrong
    finally:
        adapter.load().plant_fault("")
