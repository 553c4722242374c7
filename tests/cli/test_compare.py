"""`dmlgraph compare`: a model here and in ONNX Runtime."""

from __future__ import annotations

import pathlib
import sys
from unittest import mock

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result

import dmlgraph as dg
from dmlgraph.cli.commands import main
from dmlgraph.devices import choose
from dmlgraph.measure.onnxruntime import compare_with_onnxruntime

with_onnxruntime = pytest.mark.skipif(
    sys.platform == "win32", reason="onnxruntime is not installed: that of DirectML is the same module there"
)
MODEL = """<ir_version: 8, opset_import: ["" : 17]>
g (float[batch, 3] x, bool[3] keep, float scale) => (float[batch, 3] y, bool[batch, 3] positive) {
  zero = Constant<value_float=0.0>()
  e = Exp(x)
  scaled = Mul(e, scale)
  y = Where(keep, scaled, zero)
  positive = Greater(x, zero)
}"""


@pytest.fixture
def model(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.chdir(tmp_path)
    onnx.save(onnx.parser.parse_model(MODEL), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["compare", "m.onnx", "--with", "onnxruntime", "--dim", "batch=2", *arguments])


@pytest.mark.usefixtures("model")
@with_onnxruntime
def test_a_model_that_is_computed_alike_is_equal() -> None:
    done = call("--device", "reference", "--ulp", "2")
    assert done.exit_code == 0, done.output
    assert "y         float32    [2, 3]  equal" in done.stdout
    assert "positive  uint8      [2, 3]  equal" in done.stdout
    assert "random numbers for: x, keep, scale" in done.stderr


@with_onnxruntime
def test_the_first_inner_value_that_differs_is_shown(model: pathlib.Path) -> None:
    """Here the model has an exponential of other numbers, as if it were computed wrong."""
    x = np.array([[1, 2, 3], [0, 1, -1]], np.float32)
    np.save(model.parent / "x.npy", x)
    wrong = np.exp(x)
    wrong[1, 2] += 1
    with mock.patch("dmlgraph.operators.element_wise.Exp.evaluate", return_value=(wrong,)):
        done = call("--device", "reference", "--input", "x=x.npy", "--relative", "1e-4")
    assert done.exit_code == 1, done.output
    assert "2 of 3 inner values differ\nthe first one that differs is 'e'" in done.stdout
    assert ">  e[1, 2]  1.3678794" in done.stdout
    assert "1 of 6 elements differ" in done.stdout


@with_onnxruntime
def test_the_same_in_python(model: pathlib.Path) -> None:
    found = compare_with_onnxruntime(model, choose("cpu"), tolerance=4, dims={"batch": 1})
    assert found.equal
    assert (list(found.outputs), found.inner, found.first) == (["y", "positive"], {}, None)


@pytest.mark.usefixtures("model")
def test_a_missing_package_is_named() -> None:
    with mock.patch.dict(sys.modules, {"onnxruntime": None}):
        done = call("--device", "reference")
    assert done.exit_code == 1
    assert "the comparison needs the package 'onnxruntime'" in done.stderr


@with_onnxruntime
def test_a_model_that_onnxruntime_refuses_is_an_error(model: pathlib.Path) -> None:
    with pytest.raises(dg.DmlGraphError, match="ONNX Runtime refuses the model"):
        compare_with_onnxruntime(model, choose("reference"), {"x": np.zeros((2, 3), np.float64)}, dims={"batch": 2})


@with_onnxruntime
@pytest.mark.parametrize(("past", "random"), [(0, ("x",)), (2, ("past", "x"))])
def test_a_past_without_elements(past: int, random: tuple[str, ...], tmp_path: pathlib.Path) -> None:
    """The graph has no such input; ONNX Runtime wants it all the same."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[1, past, 3] past, float[1, 2, 3] x) => (float[1, total, 3] all) { all = Concat<axis=1>(past, x) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "cache.onnx")
    found = compare_with_onnxruntime(tmp_path / "cache.onnx", choose("reference"), dims={"past": past})
    assert found.equal
    assert found.random == random
    assert found.graph.outputs["all"].sizes == (1, past + 2, 3)


@pytest.mark.usefixtures("model")
@with_onnxruntime
def test_states_are_refused_with_what_to_do() -> None:
    done = call("--state", "x=y")
    assert done.exit_code == 1
    assert "error[states]: field 'states': a model is compared in one run" in done.stderr
    assert "leave it out" in done.stderr
