"""`dmlgraph run`: random inputs, JSON, and standard input of all commands that take a graph."""

from __future__ import annotations

import io
import json
import pathlib

import numpy as np
import pytest
from click.testing import CliRunner, Result

import dmlgraph as dg
from dmlgraph.base.tensor import DataType
from dmlgraph.cli.commands import main
from dmlgraph.testing import random_inputs

GRAPH = """\
dmlgraph: 1
name: g
inputs: {x: {dtype: float32, sizes: [2, 2]}}
nodes: {y: {op: identity, input: x}}
outputs: {result: y}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "g.yaml").write_text(GRAPH, "utf-8")
    return tmp_path


def call(*arguments: str, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(main, arguments, input=stdin)


def stored(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def test_random_inputs_are_those_of_the_seed() -> None:
    result = call("run", "g.yaml", "--random", "7", "--json", "--device", "reference")
    assert result.exit_code == 0
    assert "random numbers (seed 7) for: x\n" in result.stderr
    data = json.loads(result.stdout)["outputs"]["result"]["data"]
    assert np.array(data, np.float32).tolist() == random_inputs(dg.load("g.yaml"), 7)["x"].ravel().tolist()


def test_given_inputs_stay_as_they_are_and_without_a_seed_all_must_be_given(folder: pathlib.Path) -> None:
    np.save(folder / "x.npy", np.ones((2, 2), np.float32))
    result = call("run", "g.yaml", "--input", "x=x.npy", "--random", "1", "--json")
    assert json.loads(result.stdout)["outputs"]["result"]["data"] == [1, 1, 1, 1]
    assert call("run", "g.yaml").exit_code == 1
    assert call("run", "g.yaml", "--random", "-1").exit_code == 2


@pytest.mark.parametrize("dtype", [each for each in DataType if each.bits != 4], ids=str)
def test_json_has_every_number_exactly(dtype: DataType, folder: pathlib.Path) -> None:
    numbers = np.random.default_rng().integers(0, 256, 64 * dtype.bits // 8, np.uint8)
    array = numbers.view(dtype.numpy).reshape(4, 16)
    g = dg.Graph()
    g.output("y", g.constant("k", array))
    g.save(folder / "k.yaml")
    result = call("run", "k.yaml", "--json", "--device", "reference")
    shown = json.loads(result.stdout, parse_constant=pytest.fail)
    output = shown["outputs"]["y"]
    assert (shown["graph"], shown["device"]) == ("graph", "reference")
    assert (output["dtype"], output["sizes"]) == (str(dtype), [4, 16])
    words = {"NaN": np.nan, "Infinity": np.inf, "-Infinity": -np.inf}
    again = np.array([words.get(each, each) for each in output["data"]], dtype.numpy)
    np.testing.assert_array_equal(again, array.ravel())
    assert (np.signbit(again[~np.isnan(again)]) == np.signbit(array.ravel()[~np.isnan(again)])).all()


def test_json_of_numbers_that_are_not_finite_and_of_4_bits() -> None:
    text = """\
dmlgraph: 1
constants:
  f: {dtype: float16, sizes: [4], data: [.nan, .inf, -.inf, -0.0]}
  i: {dtype: int4, sizes: [2], data: [-8, 7]}
outputs: [f, i]
"""
    result = call("run", "-", "--json", "--device", "reference", stdin=text)
    outputs = json.loads(result.stdout)["outputs"]
    assert outputs["f"] == {"dtype": "float16", "sizes": [4], "data": ["NaN", "Infinity", "-Infinity", -0.0]}
    assert str(outputs["f"]["data"][3]) == "-0.0"
    assert outputs["i"] == {"dtype": "int4", "sizes": [2], "data": [-8, 7]}


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "-", "--random", "0"],
        ["check", "-"],
        ["lower", "-"],
        ["show", "-"],
        ["test", "-"],
        ["diff", "-", "--device", "reference", "--device", "cpu"],
        ["bench", "-", "--device", "reference", "--repeats", "1", "--json"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_every_command_takes_a_graph_from_standard_input(arguments: list[str]) -> None:
    result = call(*arguments, stdin=GRAPH)
    assert result.exit_code == 0, result.output
    named = call(*["g.yaml" if each == "-" else each for each in arguments])
    if arguments[0] not in ("bench", "test", "check"):
        assert result.stdout == named.stdout
    broken = call(*arguments, stdin=GRAPH.replace("identity", "identty"))
    assert broken.exit_code == 1
    assert "<stdin>:4:17: error[unknown-operator]" in broken.stderr
    assert call(*arguments, stdin=b"\xff").exit_code == 1


def test_a_graph_on_standard_input_names_files_in_the_current_folder(folder: pathlib.Path) -> None:
    np.save(folder / "k.npy", np.ones(2, np.float32))
    text = "dmlgraph: 1\nconstants: {k: {file: k.npy}}\noutputs: [k]\n"
    assert "k: float32 [2]\n  [1. 1.]" in call("run", "-", stdin=text).stdout


def test_an_array_may_come_from_standard_input() -> None:
    array = np.arange(4, dtype=np.float32).reshape(2, 2)
    result = call("run", "g.yaml", "--input", "x=-", "--json", stdin=stored(array))
    assert json.loads(result.stdout)["outputs"]["result"]["data"] == [0, 1, 2, 3]
    for damaged in (b"", stored(array)[:-1], b"text"):
        refused = call("run", "g.yaml", "--input", "x=-", stdin=damaged)
        assert refused.exit_code == 1
        assert "field 'input x': '-' " in refused.stderr


def test_standard_input_holds_one_thing() -> None:
    refused = call("run", "-", "--input", "x=-", stdin=stored(np.zeros((2, 2), np.float32)))
    assert refused.exit_code == 2
    assert "standard input cannot hold both the array of 'x' and the graph" in refused.stderr
