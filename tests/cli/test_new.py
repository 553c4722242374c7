"""`dmlgraph new`: starter files that pass `check` and run unchanged."""

from __future__ import annotations

import json
import math
import pathlib
import re
from typing import Any

import jsonschema
import numpy as np
import pytest
import yaml
from click.testing import CliRunner, Result

import dmlgraph as dg
from dmlgraph.cli.commands import main
from dmlgraph.cli.new import TEMPLATES

SURE = 1 / (1 + math.exp(-1))
RESULTS: dict[str, Any] = {
    "ramp": [[3, 0, 3.5], [9, 0, 6.5]],  # relu([1, -1, 0.5] * [[3, 5, 7], [9, 11, 13]])
    "dense": [[[[SURE, 1 - SURE]]]],  # softmax([1, 0])
    "convolution": [[[[28, 8, 8], [76, 8, 8], [100, 8, 8]]]],  # a ramp has steps of 8; its left border the pixels
}


@pytest.fixture(autouse=True)
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def test_new_writes_graph_yaml() -> None:
    result = call("new")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "graph.yaml: written; now: dmlgraph run graph.yaml\n"
    assert sorted(path.name for path in pathlib.Path().iterdir()) == ["dmlgraph.schema.json", "graph.yaml"]
    assert "dmlgraph check graph.yaml" in pathlib.Path("graph.yaml").read_text("utf-8")


@pytest.mark.parametrize("template", TEMPLATES)
def test_every_template_checks_and_runs_as_it_is(template: str) -> None:
    assert call("new", "my.yaml", "--template", template).exit_code == 0
    strict = call("check", "--strict", "my.yaml")
    assert (strict.exit_code, strict.stderr) == (0, "")
    assert call("run", "my.yaml", "--device", "reference").exit_code == 0
    (result,) = dg.load("my.yaml").compile("reference").run({}).values()
    np.testing.assert_allclose(result, RESULTS[template], rtol=1e-6)


def test_the_input_a_template_speaks_of_can_take_its_constants_place() -> None:
    call("new")
    text = pathlib.Path("graph.yaml").read_text("utf-8")
    text = text.replace("# inputs:", "inputs:").replace("#   x: {dtype", "  x: {dtype")
    text = text.replace("constants:\n  x: {dtype: float32, sizes: [1, 3], data: [1, -1, 0.5]}\n", "")
    g = dg.loads(text, dims={"rows": 5})
    assert [node.name for node in g.inputs] == ["x"]
    assert g.outputs["y"].sizes == (5, 3)


def test_a_file_is_replaced_only_by_force() -> None:
    pathlib.Path("mine.yaml").write_text("precious", encoding="utf-8")
    refused = call("new", "mine.yaml")
    assert refused.exit_code == 2
    assert "'mine.yaml' exists" in refused.stderr
    assert pathlib.Path("mine.yaml").read_text(encoding="utf-8") == "precious"
    assert call("new", "mine.yaml", "--force").exit_code == 0
    assert dg.load("mine.yaml").name == "ramp_times_x"


def test_a_folder_that_is_not_there_is_an_error() -> None:
    result = call("new", "none/graph.yaml")
    assert result.exit_code == 1
    assert str(pathlib.Path("none/graph.yaml")) in result.stderr


def test_the_first_line_ties_the_file_to_the_schema_beside_it(folder: pathlib.Path) -> None:
    """The form that the YAML language server reads; a relative path is relative to the file's folder."""
    (folder / "deep").mkdir()
    call("new", "deep/g.yaml")
    first = (folder / "deep" / "g.yaml").read_text("utf-8").splitlines()[0]
    name = re.fullmatch(r"# yaml-language-server: \$schema=(\S+)", first)
    assert name is not None
    validator = jsonschema.Draft202012Validator(json.loads((folder / "deep" / name[1]).read_text("utf-8")))
    validator.validate(yaml.safe_load((folder / "deep" / "g.yaml").read_text("utf-8")))


def test_a_file_may_be_written_without_a_schema(folder: pathlib.Path) -> None:
    call("new", "--no-schema")
    assert [path.name for path in folder.iterdir()] == ["graph.yaml"]
    assert "yaml-language-server" not in (folder / "graph.yaml").read_text("utf-8")


def test_the_schema_command_writes_the_same_schema(folder: pathlib.Path) -> None:
    call("new")
    assert call("schema", "-o", "again.json").exit_code == 0
    assert (folder / "again.json").read_bytes() == (folder / "dmlgraph.schema.json").read_bytes()
    assert json.loads(call("schema").stdout) == json.loads((folder / "again.json").read_text("utf-8"))
