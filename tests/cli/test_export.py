"""`dmlgraph export --to cpp`: what it writes and prints, and its exit status."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
from click.testing import CliRunner, Result

from dmlgraph.cli.commands import main

GRAPH = """
dmlgraph: 1
name: graph
dims: {N: 2}
inputs:
  x: {dtype: float32, sizes: [N, 3]}
nodes:
  y: {op: activation_gelu, input: x}
outputs: [y]
"""


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["export", *map(str, arguments)])


@pytest.fixture
def graph(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "graph.yaml"
    path.write_text(GRAPH, "utf-8")
    return path


def test_cpp_is_written_into_a_folder(graph: pathlib.Path, tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "deep" / "folder"
    result = call(graph, "--to", "cpp", "-o", folder, "--dim", "N=5", "--no-fuse", "--level", "5.1")
    assert (result.exit_code, result.output) == (
        0,
        f"{folder}: written; {folder / 'README.md'} says how to build and use it\n",
    )
    assert "{5, 3}" in (folder / "graph.h").read_text("utf-8")


def test_a_level_that_is_too_low_is_an_error_at_its_place(graph: pathlib.Path, tmp_path: pathlib.Path) -> None:
    result = call(graph, "--to", "cpp", "-o", tmp_path / "folder", "--level", "5.0")
    assert result.exit_code == 1
    assert f"{graph}:8:" in result.output
    assert not (tmp_path / "folder").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--to", "cpp", "-o", "graph.yaml"], "'graph.yaml' is a file, and C++ needs a folder"),
        (["--to", "cpp", "-o", "folder", "--level", "9"], "not a DirectML feature level"),
        (["-o", "y.onnx", "--fuse"], "'y.onnx' must end in .json or .yaml or .yml with --fuse"),
        (["-o", "y.onnx", "--level", "5.1"], "is for --to cpp"),
        (["-o", "y.onnx", "--self-check"], "is for --to cpp"),
        (["-o", "y.onnx", "--dim", "N=1,2"], "several sizes are for --to cpp"),
        (["graph.yaml", "-o", "y.onnx"], "several are for --to cpp"),
        (["graph.yaml", "--to", "cpp", "-o", "folder"], "two graphs have the name 'graph'"),
        (["-o", "."], "'.' must end in .onnx or .json"),
        (["--to", "java", "-o", "x"], "'java' is not 'cpp'"),
    ],
)
def test_wrong_usage(graph: pathlib.Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str) -> None:
    monkeypatch.chdir(graph.parent)
    result = call("graph.yaml", *arguments)
    assert (result.exit_code, said in result.output) == (2, True), result.output


def test_the_self_check_takes_inputs(graph: pathlib.Path, tmp_path: pathlib.Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(6, dtype=np.float32).reshape(2, 3))
    given = f"x={tmp_path / 'x.npy'}"
    result = call(graph, "--to", "cpp", "-o", tmp_path / "folder", "--self-check", "--input", given)
    assert result.exit_code == 0, result.output
    expected = np.fromfile(tmp_path / "folder" / "expected.bin", np.float32)
    assert expected[:6].tolist() == [0, 1, 2, 3, 4, 5]
    result = call(graph, "--to", "cpp", "-o", tmp_path / "folder", "--input", given)
    assert (result.exit_code, "is for --self-check" in result.output) == (2, True)


def test_several_sizes_have_a_folder_each(graph: pathlib.Path, tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "folder"
    result = call(graph, "--to", "cpp", "-o", folder, "--dim", "N=1,4")
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in folder.iterdir()) == [
        "CMakeLists.txt",
        "README.md",
        "graph_N_1",
        "graph_N_4",
        "weights.bin",
    ]
    header = (folder / "graph_N_4" / "graph.h").read_text("utf-8")
    assert "namespace dml_graph_N_4 {" in header
    assert "{4, 3}" in header
