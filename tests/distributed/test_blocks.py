"""A graph over the blocks of Dask arrays."""

from __future__ import annotations

import pathlib
import pickle
from typing import Any

import dask
import numpy as np
import pytest
from support.problems import raises

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.devices import recipe
from dmlgraph.distributed import map_blocks

da = pytest.importorskip("dask.array")


@pytest.fixture
def g() -> dg.Graph:
    """y = x · w + b with large weights, its sum over the columns, and its largest element."""
    graph = dg.Graph("rows", dims={"batch": 4})
    x = graph.input("x", sizes=["batch", 3], dtype="float32")
    b = graph.input("b", sizes=[1, 1000], dtype="float32")
    y = dg.gemm(x, graph.constant("w", W)) + b
    graph.output("y", y)
    graph.output("sum", dg.reduce(y, function="sum", axes=[1]))
    graph.output("most", dg.reduce(y, function="max", axes=[0, 1]))
    return graph


W = np.random.default_rng(0).integers(-4, 4, (3, 1000)).astype(np.float32)
B = np.arange(1000, dtype=np.float32).reshape(1, 1000)
X = np.arange(33, dtype=np.float32).reshape(11, 3)
Y = X @ W + B
LAZY = da.from_array(X, chunks=(4, 3))


@pytest.mark.parametrize("chunks", [(4, 3), (11, 3), (1, 3), ((2, 5, 4), 3)], ids=str)
def test_blocks_of_a_batch(g: dg.Graph, chunks: Any) -> None:
    x = da.from_array(X, chunks=chunks)
    got = map_blocks(g, {"x": x, "b": B}, device="cpu", outputs=["y", "sum"])
    assert list(got) == ["y", "sum"]
    assert got["y"].chunks == (x.chunks[0], (1000,))
    assert got["sum"].chunks == (x.chunks[0], (1,))
    assert got["y"].dtype == got["y"]._meta.dtype == np.float32
    y, total = dask.compute(got["y"], got["sum"], scheduler="threads")
    np.testing.assert_array_equal(y, Y)
    np.testing.assert_array_equal(total, Y.sum(1, keepdims=True))
    assert isinstance(y, np.ndarray)


def test_nothing_is_computed_before_it_is_asked_for(g: dg.Graph) -> None:
    x = da.from_delayed(dask.delayed(lambda: 1 // 0)(), (4, 3), np.float32)
    y = map_blocks(g, {"x": x, "b": B}, device="cpu")["y"]
    with pytest.raises(ZeroDivisionError):
        y.compute(scheduler="sync")


def test_other_operations_go_on_with_the_blocks(g: dg.Graph) -> None:
    x = da.from_array(X, chunks=(4, 3)) - 1
    y = map_blocks(g, {"x": x, "b": B}, device="cpu", outputs=["y"])["y"]
    np.testing.assert_allclose((y * 2)[3:9, 5].compute(scheduler="threads"), (((X - 1) @ W + B) * 2)[3:9, 5])
    assert y[:2].mean().compute(scheduler="sync") == pytest.approx(((X - 1) @ W + B)[:2].mean())


def test_blocks_along_several_dims() -> None:
    g = dg.Graph(dims={"n": 2, "h": 2})
    x = g.input("x", sizes=["n", 3, "h"], dtype="float32")
    g.output("y", x.transpose(2, 0, 1) + g.input("b", sizes=["h", 1, 1], dtype="float32"))
    data = np.arange(5 * 3 * 7, dtype=np.float32).reshape(5, 3, 7)
    b = np.arange(7, dtype=np.float32).reshape(7, 1, 1)
    y = map_blocks(g, {"x": da.from_array(data, chunks=(2, 3, 4)), "b": b}, device="cpu")["y"]
    assert y.chunks == ((4, 3), (2, 2, 1), (3,))
    np.testing.assert_array_equal(y.compute(scheduler="sync"), data.transpose(2, 0, 1) + b)


def test_arrays_with_a_dim_in_common_are_cut_alike() -> None:
    g = dg.Graph(dims={"n": 2})
    g.output("y", g.input("a", sizes=["n"], dtype="int32") - g.input("b", sizes=["n"], dtype="int32"))
    a, b = np.arange(10, dtype=np.int32), np.arange(10, dtype=np.int32) ** 2
    given = {"a": da.from_array(a, chunks=5), "b": da.from_array(b, chunks=4)}
    y = map_blocks(g, given, device="cpu")["y"]
    assert y.chunks == ((4, 1, 3, 2),)
    np.testing.assert_array_equal(y.compute(scheduler="sync"), a - b)


def test_sizes_that_are_computed_follow() -> None:
    g = dg.Graph(dims={"n": 2})
    x = g.input("x", sizes=["n", 4], dtype="float32")
    g.output("y", x.reshape("2 * n", 2))
    data = np.arange(20, dtype=np.float32).reshape(5, 4)
    y = map_blocks(g, {"x": da.from_array(data, chunks=(2, 4))}, device="cpu")["y"]
    assert y.chunks == ((4, 4, 2), (2,))
    np.testing.assert_array_equal(y.compute(scheduler="sync"), data.reshape(10, 2))


def test_arrays_alone_are_one_block(g: dg.Graph) -> None:
    got = map_blocks(g, {"x": X, "b": B}, device="cpu")
    assert got["most"].chunks == ((1,), (1,))
    np.testing.assert_array_equal(got["most"].compute(scheduler="sync"), [[Y.max()]])


@pytest.mark.parametrize("dtype", ["float16", "float64", "uint8", "int64"])
def test_data_types(dtype: DataTypeName) -> None:
    g = dg.Graph(dims={"n": 2})
    kind = dg.DataType.parse(dtype)
    g.output("y", dg.identity(g.input("x", sizes=["n"], dtype=dtype)))
    data = np.arange(6).astype(kind.numpy)
    y = map_blocks(g, {"x": da.from_array(data, chunks=4)}, device="reference")["y"]
    assert y.dtype == kind.numpy
    assert y.compute(scheduler="sync").tobytes() == data.tobytes()


def test_an_output_must_be_made_of_blocks(g: dg.Graph) -> None:
    with raises(dg.GraphError, "sizes", field="outputs.most", got=[1, 1]) as told:
        map_blocks(g, {"x": da.from_array(X, chunks=(4, 3)), "b": B})
    assert "rechunk" in str(told.value.hint)


@pytest.mark.parametrize(
    ("given", "code", "field", "got"),
    [
        ({"x": da.from_array(X, chunks=(4, 2)), "b": B}, "sizes", "x[1]", "2 blocks"),
        ({"x": da.from_array(X.astype(int), chunks=4), "b": B}, "dtype", "x", "int64"),
        ({"x": da.from_array(X[0], chunks=3), "b": B}, "rank", "x", [3]),
        ({"x": da.from_array(X, chunks=(4, 3))}, "missing-input", None, None),
        ({"x": da.from_array(X, chunks=(4, 3)), "b": B, "c": B}, "unknown-array", "c", None),
        ({"c": da.from_array(X, chunks=(4, 3)), "b": B}, "unknown-array", "c", None),
        ({"x": LAZY[LAZY[:, 0] > 5], "b": B}, "sizes", "x[0]", None),
    ],
)
def test_arrays_that_do_not_fit(g: dg.Graph, given: Any, code: str, field: str | None, got: object) -> None:
    with raises(dg.BindingError, code, field=field, got=got):
        map_blocks(g, given)


def test_an_array_of_another_shape_is_refused_before_it_is_computed(g: dg.Graph) -> None:
    with raises(dg.DmlGraphError, "sizes", field="x", got=[4, 4], allowed="[4, 3]"):
        map_blocks(g, {"x": da.zeros((11, 4), dtype=np.float32, chunks=(4, 4)), "b": B})


def test_a_size_that_the_graph_cannot_have_is_refused_at_once() -> None:
    g = dg.Graph(dims={"n": 4})
    g.output("y", g.input("x", sizes=["n"], dtype="float32").reshape("n // 2", 2))
    with pytest.raises(dg.DmlGraphError):
        map_blocks(g, {"x": da.zeros(7, dtype=np.float32, chunks=4)})


def test_names_depend_on_the_content(g: dg.Graph) -> None:
    x = da.from_array(X, chunks=(4, 3))

    def name(graph: dg.Graph = g, x: Any = x, b: Any = B, **options: Any) -> str:
        return map_blocks(graph, {"x": x, "b": b}, outputs=["y"], **({"device": "cpu"} | options))["y"].name

    assert name() == name(graph=pickle.loads(pickle.dumps(g)))
    assert len({name(), name(device="reference"), name(fuse=False), name(b=B + 1), name(x=x + 1)}) == 5


def test_weights_are_in_one_task_and_runs_in_one_for_all_outputs(g: dg.Graph) -> None:
    got = map_blocks(g, {"x": da.from_array(X, chunks=(2, 3)), "b": B}, device="cpu", outputs=["y", "sum"])
    (y, total) = dask.optimize(got["y"], got["sum"])
    tasks = dict(y.__dask_graph__()) | dict(total.__dask_graph__())
    heavy = [key for key, task in tasks.items() if len(pickle.dumps(task)) > W.nbytes]
    assert len(heavy) == 1
    assert str(heavy[0]).startswith("dmlgraph-runner")


def kept_there() -> tuple[int, int]:
    """How many graphs and executables a worker has."""
    return len(recipe._SOURCES), len(recipe._EXECUTABLES)


def test_a_cluster_computes_the_same_and_compiles_once_on_each_worker(g: dg.Graph, spawned: Any) -> None:
    before = spawned.run(kept_there)
    x = da.from_array(X, chunks=(1, 3))
    got = map_blocks(g, {"x": x, "b": B}, device="cpu", outputs=["y", "sum"])
    y, total = spawned.gather(spawned.compute([got["y"], got["sum"]]))
    np.testing.assert_array_equal(y, Y)
    np.testing.assert_array_equal(total, Y.sum(1, keepdims=True))
    for worker, (sources, executables) in spawned.run(kept_there).items():
        assert sources - before[worker][0] <= 1
        assert executables - before[worker][1] <= 1


def test_a_file_that_all_workers_see(g: dg.Graph, spawned: Any, tmp_path: pathlib.Path) -> None:
    g.save(tmp_path / "rows.yaml")
    y = map_blocks(tmp_path / "rows.yaml", {"x": da.from_array(X, chunks=(4, 3)), "b": B}, outputs=["y"], device="cpu")
    np.testing.assert_array_equal(spawned.compute(y["y"]).result(), Y)
