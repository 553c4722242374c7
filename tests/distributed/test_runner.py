"""A graph as a function of named arrays, for any engine."""

from __future__ import annotations

import pathlib
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from support.problems import raises

import dmlgraph as dg
from dmlgraph.distributed import Runner


@pytest.fixture
def g() -> dg.Graph:
    """y = x · 2 + b, z = -x over a batch of rows."""
    graph = dg.Graph("rows", dims={"batch": 4})
    x = graph.input("x", sizes=["batch", 3], dtype="float32")
    b = graph.input("b", sizes=[1, 3], dtype="float32")
    graph.output("y", x * 2 + b)
    graph.output("z", -x)
    return graph


B = np.array([[10, 20, 30]], np.float32)


def rows(count: int) -> np.ndarray[Any, Any]:
    return np.arange(count * 3, dtype=np.float32).reshape(count, 3)


@pytest.mark.parametrize("way", [lambda each: each, lambda each: pickle.loads(pickle.dumps(each))])
def test_batches_of_any_size(g: dg.Graph, way: Any) -> None:
    runner = way(Runner(g, device="cpu", inputs={"b": B}))
    for count in (4, 4, 1, 7):
        got = runner({"x": rows(count), "id": ["a"] * count})
        np.testing.assert_array_equal(got["y"], rows(count) * 2 + B)
        np.testing.assert_array_equal(got["z"], -rows(count))
        assert got["id"] == ["a"] * count
        assert list(got) == ["id", "y", "z"]


def test_lists_are_arrays(g: dg.Graph) -> None:
    got = Runner(g, device="reference")({"x": list(rows(2)), "b": B})
    np.testing.assert_array_equal(got["y"], rows(2) * 2 + B)


def test_a_file_that_all_machines_see(g: dg.Graph, tmp_path: pathlib.Path) -> None:
    g.save(tmp_path / "rows.yaml")
    runner = Runner(tmp_path / "rows.yaml", device="cpu", dims={"batch": 2}, inputs={"b": B})
    assert len(pickle.dumps(runner)) < 1000
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(runner))({"x": rows(2)})["z"], -rows(2))


@pytest.mark.parametrize(
    ("given", "code", "field", "got"),
    [
        ({"x": rows(2)}, "missing-input", None, None),
        ({"x": rows(2)[0], "b": B}, "rank", "x", [3]),
        ({"x": rows(2).astype(np.float64), "b": B}, "dtype", "x", "float64"),
        ({"x": rows(2), "b": B[:, :2]}, "sizes", "b", [1, 2]),
    ],
)
def test_arrays_that_do_not_fit(g: dg.Graph, given: Any, code: str, field: str | None, got: object) -> None:
    with raises(dg.BindingError, code, field=field, got=got):
        Runner(g, device="cpu")(given)


def test_a_dim_has_one_size() -> None:
    g = dg.Graph(dims={"n": 2})
    g.output("y", g.input("a", sizes=["n"], dtype="float32") + g.input("b", sizes=["n"], dtype="float32"))
    with raises(dg.BindingError, "sizes", field="b[0]", got=3, allowed="2, as in a[0]"):
        Runner(g, device="cpu")({"a": np.zeros(2, np.float32), "b": np.zeros(3, np.float32)})


def test_what_is_wrong_is_said_before_anything_is_sent(g: dg.Graph) -> None:
    with raises(dg.DeviceError, "unknown-device", field="device", got="cuda"):
        Runner(g, device="cuda")
    with raises(dg.BindingError, "unknown-array", field="c"):
        Runner(g, inputs={"c": B})
    with raises(dg.GraphError, "unknown-dim", field="dims.bach"):
        Runner(g, dims={"bach": 2})


def test_it_needs_no_engine() -> None:
    code = "import sys\nfrom dmlgraph.distributed import Runner\nprint(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert "'dmlgraph.distributed.runner'" in done.stdout
    assert not {"'dask'", "'distributed'", "'ray'"} & set(done.stdout.replace("[", "").split(", "))
