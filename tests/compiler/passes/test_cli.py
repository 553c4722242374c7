"""Fusion on the command line."""

from __future__ import annotations

import pathlib

import pytest
from click.testing import CliRunner

from dmlgraph.cli.commands import main

SCALED = """\
dmlgraph: 1
name: scaled
inputs:
  x: {dtype: float32, sizes: [2, 3]}
nodes:
  two: {op: fill_value_constant, output: {dtype: float32, sizes: [2, 3]}, value: 2}
  doubled: {op: multiply, a: x, b: two}
  y: {op: activation_relu, input: doubled}
outputs: [y]
"""


@pytest.fixture
def file(tmp_path: pathlib.Path) -> str:
    path = tmp_path / "scaled.yaml"
    path.write_text(SCALED, encoding="utf-8")
    return str(path)


def output_of(*arguments: str) -> str:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_lower_fuses(file: str):
    text = output_of("lower", file)
    assert "node 0 y: ELEMENT_WISE_THRESHOLD" in text
    assert "ScaleBias = scale 2.0 bias -0.0" in text
    assert "MULTIPLY" not in text


def test_lower_without(file: str):
    text = output_of("lower", file, "--no-fuse")
    assert [line.split(": ")[1] for line in text.splitlines() if line.startswith("node ")] == [
        "FILL_VALUE_CONSTANT",
        "ELEMENT_WISE_MULTIPLY",
        "ACTIVATION_RELU",
    ]


def test_explain_comes_first_behind_signs(file: str):
    plain, explained = output_of("lower", file), output_of("lower", file, "--explain")
    assert explained.endswith(plain)
    said = explained.removesuffix(plain).splitlines()
    assert said
    assert all(line.startswith("# ") for line in said)
    assert any("→ y: " in line and "doubled" in line for line in said)


def test_explain_where_nothing_was_done(file: str):
    assert output_of("lower", file, "--explain", "--no-fuse").startswith(
        "# nothing is fused: --no-fuse\ngraph scaled\n"
    )


def test_run_gives_the_same_either_way(file: str, tmp_path: pathlib.Path):
    data = tmp_path / "x.npy"
    import numpy as np

    np.save(data, np.array([[1, -2, 3], [-0.0, 0.5, 7]], np.float32))
    given = ("run", file, "--device", "reference", "--input", f"x={data}")
    assert output_of(*given) == output_of(*given, "--no-fuse")
