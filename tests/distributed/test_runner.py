"""A graph as a function of named arrays, for any engine."""

from __future__ import annotations

import pathlib
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

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
    ("given", "message"),
    [
        ({"x": rows(2)}, "inputs are missing: 'b'"),
        ({"x": rows(2)[0], "b": B}, "another rank"),
        ({"x": rows(2).astype(np.float64), "b": B}, "another data type"),
        ({"x": rows(2), "b": B[:, :2]}, "another shape"),
    ],
)
def test_arrays_that_do_not_fit(g: dg.Graph, given: Any, message: str) -> None:
    with pytest.raises(dg.BindingError, match=message):
        Runner(g, device="cpu")(given)


def test_a_dim_has_one_size() -> None:
    g = dg.Graph(dims={"n": 2})
    g.output("y", g.input("a", sizes=["n"], dtype="float32") + g.input("b", sizes=["n"], dtype="float32"))
    with pytest.raises(dg.BindingError, match=r"field 'b\[0\]': the dim 'n' has two sizes; got 3; allowed: 2, as in a"):
        Runner(g, device="cpu")({"a": np.zeros(2, np.float32), "b": np.zeros(3, np.float32)})


def test_what_is_wrong_is_said_before_anything_is_sent(g: dg.Graph) -> None:
    with pytest.raises(dg.DeviceError, match="is not a device"):
        Runner(g, device="cuda")
    with pytest.raises(dg.BindingError, match="is not an input"):
        Runner(g, inputs={"c": B})
    with pytest.raises(dg.GraphError, match="dim"):
        Runner(g, dims={"bach": 2})


def test_it_needs_no_engine() -> None:
    code = "import sys\nfrom dmlgraph.distributed import Runner\nprint(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert "'dmlgraph.distributed.runner'" in done.stdout
    assert not {"'dask'", "'distributed'", "'ray'"} & set(done.stdout.replace("[", "").split(", "))
