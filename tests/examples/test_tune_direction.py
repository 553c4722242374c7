"""An image model of a package, tuned by pairs of small matrices for pictures that it does not know."""

from __future__ import annotations

import pathlib
import runpy
from typing import Any

import onnx
import pytest

import dmlgraph as dg


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    path = pathlib.Path(__file__).parents[2] / "examples" / "tune_direction" / "tune_direction.py"
    return runpy.run_path(str(path))


def test_the_tuned_model_sees_what_it_did_not_see(
    example: dict[str, Any], packaged_models: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    before, after = example["tune"](packaged_models / example["MODEL"], tmp_path / "tuned.onnx", 24, "cpu")
    assert before < 0.7
    assert after > 0.85
    first, tuned = onnx.load(packaged_models / example["MODEL"]), onnx.load(tmp_path / "tuned.onnx")
    names = [{each.name for each in model.graph.initializer} for model in (first, tuned)]
    weights = {node.input[1] for node in first.graph.node if node.op_type == "Conv"}
    assert weights & names[0] <= names[1]  # the model's own names


def test_only_pairs_are_trained(example: dict[str, Any], packaged_models: pathlib.Path) -> None:
    graph: dg.Graph = example["tuned_graph"](packaged_models / example["MODEL"])
    assert graph.states
    assert all(state.name.startswith("lora/") for state in graph.states)
