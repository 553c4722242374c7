"""Reproducers: files that show a fault to those who have nothing else."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import pytest
from support.faulty_device import faulty

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeLike
from dmlgraph.doctor import reproducer
from dmlgraph.doctor.trials import Trials
from dmlgraph.measure.ulp import Tolerance, compare
from dmlgraph.testing.run import Runner, cases


def case(dtype: DataTypeLike, *sizes: int) -> dg.Graph:
    g = dg.Graph("case")
    g.output("y", dg.exp(g.input("x", sizes=list(sizes), dtype=dtype), name="y"))
    return g


@pytest.mark.parametrize(
    ("x", "written"),
    [
        (np.full((2, 3), 1.5, np.float32), "{value: 1.5}"),
        (np.arange(3, 9, dtype=np.float16).reshape(2, 3), "{sequence: {start: 3.0, delta: 1}}"),
        (np.array([[1, 2, 2.5]], np.float32), "{data: [1.0, 2.0, 2.5]}"),
        (np.array([[1, np.nan, np.inf]], np.float32), "{data: [1.0, .nan, .inf]}"),
    ],
)
def test_a_graph_file_has_the_numbers_in_a_test(x: Any, written: str) -> None:
    graph = case(x.dtype, *x.shape)
    outcome = Trials(faulty(lambda _: True)).run(graph, {"x": x})
    text = reproducer.text(graph, {"x": x}, outcome)
    assert f"    inputs: {{x: {written}}}\n" in text
    read = dg.loads(text)
    given = read.origin.tests["case"].input_arrays(read)
    np.testing.assert_array_equal(given["x"], x)
    (test,) = (each for each in cases(read) if each.device == "cpu")
    with Runner(read) as runner:
        assert runner.run(test).outcome.value == "passed"


def test_a_case_is_written_for_everyone(tmp_path: pathlib.Path) -> None:
    graph, x = case("float32", 40, 40), np.random.default_rng(0).normal(size=(40, 40)).astype(np.float32)
    outcome = Trials(faulty(lambda _: True)).run(graph, {"x": x})
    assert reproducer.save(tmp_path, graph, {"x": x}, outcome) == ["case.yaml", "case.json", "cpp"]
    assert "file: case.tests.x.npy" in (tmp_path / "case.yaml").read_text("utf-8")
    read = dg.load(tmp_path / "case.yaml")
    np.testing.assert_array_equal(read.origin.tests["case"].input_arrays(read)["x"], x)
    assert json.loads((tmp_path / "case.json").read_text("utf-8"))["dispatchables"]["y"]["type"] == (
        "DML_OPERATOR_ELEMENT_WISE_EXP"
    )
    expected = (tmp_path / "cpp" / "expected.bin").read_bytes()
    assert x.tobytes() in expected
    assert np.exp(x[0, 0]).tobytes()[1:] in expected


@pytest.mark.parametrize(("units", "operator"), [(1, dg.activation_relu), (270, dg.tanh)])
def test_a_small_fault_is_one_by_the_bounds_of_its_operator(units: int, operator: Any) -> None:
    """One unit is much for what only selects, and 270 are for a function, though both are near the largest number."""
    graph = dg.Graph()
    graph.output("y", operator(graph.input("x", sizes=[4], dtype="float32"), name="y"))
    x = {"x": np.array([-1, 0.25, 0.5, 8], np.float32)}
    assert Trials(faulty(lambda _: True, units // 2)).run(graph, x).is_right is (units > 1)
    outcome = Trials(faulty(lambda _: True, units)).run(graph, x)
    assert outcome.is_wrong
    test = dg.loads(reproducer.text(graph, x, outcome)).origin.tests["case"]
    got, expected = outcome.got["y"], outcome.expected["y"]
    assert not compare(got, expected, Tolerance(test.ulp or 0, 0.0, test.absolute or 0.0)).equal
    assert compare(expected, expected, Tolerance(test.ulp or 0, 0.0, test.absolute or 0.0)).equal
