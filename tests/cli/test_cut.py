"""`dmlgraph cut`: a part of a graph as a file of its own."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
from click.testing import CliRunner, Result

import dmlgraph as dg
from dmlgraph.cli.commands import main

GRAPH = """
dmlgraph: 1
dims: {N: 2}
inputs: {x: {dtype: float32, sizes: [N, 3]}, b: {dtype: float32, sizes: [N, 3]}}
constants: {w: {dtype: float32, sizes: [1, 3], data: [1, 2, 3]}}
nodes:
  wide: {op: broadcast_to, input: w, sizes: [N, 3]}
  h: {op: multiply, a: x, b: wide}
  r: {op: activation_relu, input: h}
  s: {op: add, a: r, b: b}
outputs: {y: s}
tests: {ones: {inputs: {x: {value: 1}, b: {value: 1}}, expect: {y: {data: [2, 3, 4, 2, 3, 4]}}}}
"""


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "graph.yaml").write_text(GRAPH, "utf-8")
    return tmp_path


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["cut", "graph.yaml", *arguments])


@pytest.mark.usefixtures("folder")
def test_the_parts_make_the_whole() -> None:
    done = call("--outputs", "h", "-o", "first.yaml")
    assert (done.exit_code, done.output) == (0, "first.yaml: written, 2 operators, 1 constant, 1 input; it reads x\n")
    done = call("--outputs", "y", "--inputs", "relu=r", "-o", "second.yaml")
    assert (done.exit_code, done.output) == (0, "second.yaml: written, 1 operator, 2 inputs; it reads relu, b\n")
    x, b = np.array([[1, -1, 2], [0, 3, -4]], np.float32), np.ones((2, 3), np.float32)
    h = dg.load("first.yaml").compile("reference").run({"x": x})["h"]
    y = dg.load("second.yaml").compile("reference").run({"relu": np.maximum(h, 0), "b": b})["y"]
    np.testing.assert_array_equal(y, dg.load("graph.yaml").compile("reference").run({"x": x, "b": b})["y"])
    assert dg.load("first.yaml").dims == {"N": 2}


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--outputs", "hh", "-o", "part.yaml"], 1, "did you mean 'h'?"),
        (["--outputs", "h", "--inputs", "b", "-o", "part.yaml"], 1, "the outputs do not depend on this input"),
        (["--outputs", "=h", "-o", "part.yaml"], 2, "'=h' is not REFERENCE or NAME=REFERENCE"),
        (["-o", "part.yaml"], 2, "Missing option '--outputs'"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_written(
    folder: pathlib.Path, arguments: list[str], status: int, said: str
) -> None:
    done = call(*arguments)
    assert done.exit_code == status
    assert said in done.output
    assert not (folder / "part.yaml").exists()
