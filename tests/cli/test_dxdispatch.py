"""`dmlgraph dxdispatch`: import and export, what they print and write, and their exit status."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import pytest
from click.testing import CliRunner, Result

import dmlgraph as dg
from dmlgraph.cli.commands import main

GRAPH = """\
dmlgraph: 1
name: shifted
dims: {N: 2}
inputs:
  x: {dtype: float32, sizes: [N]}
constants:
  k: {dtype: float32, sizes: [1], data: [0.5]}
nodes:
  y: {op: add, a: x, b: k}
outputs: [y]
"""
PLAIN = {"DataType": "FLOAT32", "Sizes": [2]}


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A folder with graph.yaml, model.json and x.npy, in which the commands run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "graph.yaml").write_text(GRAPH, encoding="utf-8")
    np.save(tmp_path / "x.npy", np.array([1, 2], np.float32))
    model = {
        "resources": {
            "x": {"initialValuesDataType": "FLOAT32", "initialValues": [1, -2]},
            "y": {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 2, "value": 0}},
        },
        "dispatchables": {"relu": {"type": "ACTIVATION_RELU", "desc": {"InputTensor": PLAIN, "OutputTensor": PLAIN}}},
        "commands": [
            {"type": "dispatch", "dispatchable": "relu", "bindings": {"InputTensor": "x", "OutputTensor": "y"}},
            {"type": "print", "resource": "y"},
        ],
    }
    (tmp_path / "model.json").write_text(json.dumps(model, indent=1), encoding="utf-8")
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def call(*arguments: str) -> Result:
    return run("dxdispatch", *arguments)


def test_import_prints_a_graph_file(folder: pathlib.Path):  # noqa: ARG001 - where it runs
    result = call("import", "model.json")
    assert result.exit_code == 0
    graph = dg.loads(result.stdout)
    assert graph.name == "model"
    assert graph.compile("reference").run({})["y"].tolist() == [1, 0]


def test_import_writes_a_graph_file_with_the_inputs_that_are_asked_for(folder: pathlib.Path):
    result = call("import", "model.json", "--input", "x", "-o", "imported.yaml")
    assert (result.exit_code, result.output) == (0, "")
    graph = dg.load(folder / "imported.yaml")
    assert graph.compile("reference").run({"x": np.array([-3, 4], np.float32)})["y"].tolist() == [0, 4]


def test_import_tells_mistakes_with_their_places(folder: pathlib.Path):
    text = (folder / "model.json").read_text(encoding="utf-8").replace("ACTIVATION_RELU", "ACTIVATION_RELUU")
    (folder / "model.json").write_text(text, encoding="utf-8")
    line = next(index for index, each in enumerate(text.splitlines(), 1) if "RELUU" in each)
    result = call("import", "model.json")
    assert result.exit_code == 1
    assert f"model.json:{line}:" in result.stderr
    assert "did you mean 'ACTIVATION_RELU'?" in result.stderr


def test_what_export_writes_is_imported_as_the_graph_again(folder: pathlib.Path):
    assert run("export", "graph.yaml", "--input", "x=x.npy", "-o", "out.json").exit_code == 0
    assert json.loads((folder / "out.json").read_text(encoding="utf-8"))["resources"]["x"]["initialValues"] == [1, 2]
    assert call("import", "out.json", "--input", "x", "-o", "again.yaml").exit_code == 0
    graph = dg.load(folder / "again.yaml")
    assert graph.compile("reference").run({"x": np.array([1, 2], np.float32)})["y"].tolist() == [1.5, 2.5]


def test_export_refuses_an_array_that_does_not_fit(folder: pathlib.Path):  # noqa: ARG001 - where it runs
    result = run("export", "graph.yaml", "--input", "x=x.npy", "--dim", "N=3", "-o", "out.json")
    assert result.exit_code == 1
    assert "has another shape" in result.stderr


def test_the_former_command_names_export(folder: pathlib.Path):  # noqa: ARG001 - where it runs
    result = call("export", "graph.yaml")
    assert result.exit_code == 2
    assert "write 'dmlgraph export FILE -o MODEL.json'" in result.output


@pytest.mark.parametrize("arguments", [["import"], ["import", "missing.json"]])
def test_wrong_usage_has_status_2(folder: pathlib.Path, arguments: list[str]):  # noqa: ARG001 - where it runs
    assert call(*arguments).exit_code == 2


@pytest.mark.parametrize("command", [[], ["import"]])
def test_help_has_an_example(command: list[str]):
    assert "Example" in call(*command, "--help").output
