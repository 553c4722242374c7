"""Jobs of many chunks: what is read, what is written, and how they go on."""

from __future__ import annotations

import io
import json
import os
import pathlib
import shutil
import time
import types
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.clusters import workers_inside

import dmlgraph as dg
from dmlgraph.base.once_per_key import OncePerKey
from dmlgraph.devices import recipe
from dmlgraph.distributed import Runner, run_chunks
from dmlgraph.distributed.progress import Progress

pytest.importorskip("distributed.client")

from support.problems import raises

from dmlgraph.distributed import job, window
from dmlgraph.distributed.job import job_of

X = np.arange(33, dtype=np.float32).reshape(11, 3)
B = np.array([[10, 20, 30]], np.float32)


@pytest.fixture
def g() -> dg.Graph:
    """y = x · 2 + b and the sum over all of it."""
    graph = dg.Graph("rows", dims={"batch": 4})
    y = graph.input("x", sizes=["batch", 3], dtype="float32") * 2 + graph.input("b", sizes=[1, 3], dtype="float32")
    graph.output("y", y)
    graph.output("sum", dg.reduce(y, function="sum", axes=[0, 1]))
    return graph


@pytest.fixture
def run(g: dg.Graph, tmp_path: pathlib.Path, inside: Any) -> Any:
    """Runs the graph in this process."""

    def run(inputs: Any = None, *, graph: Any = g, out: str = "out", **options: Any) -> Any:
        given = {"x": X, "b": B} if inputs is None else inputs
        asked: dict[str, Any] = {"device": "cpu", "chunks": {"batch": 4}, "progress": False}
        return run_chunks(graph, given, tmp_path / out, client=inside, **(asked | options))

    return run


def results(folder: pathlib.Path, output: str) -> list[np.ndarray[Any, Any]]:
    """The results of an output in the order of their names."""
    return [np.load(path) for path in sorted((folder / "results" / output).rglob("*.npy"))]


def computed(folder: pathlib.Path) -> int:
    return sum(len(path.read_text("utf-8").splitlines()) for path in (folder / "log").iterdir())


def test_an_array_is_cut_into_chunks(run: Any, tmp_path: pathlib.Path) -> None:
    summary = run()
    assert (summary.total, summary.before, summary.done, summary.failed) == (3, 0, 3, 0)
    out = tmp_path / "out"
    y = results(out, "y")
    assert [len(each) for each in y] == [4, 4, 3]
    np.testing.assert_array_equal(np.concatenate(y), X * 2 + B)
    assert [each.item() for each in results(out, "sum")] == [(X * 2 + B)[i : i + 4].sum() for i in (0, 4, 8)]
    assert sorted(path.name for path in out.iterdir()) == ["done", "log", "manifest.json", "results"]
    assert json.loads((out / "done" / "00000.json").read_text("utf-8")) == sorted(
        path.stem for path in (out / "results" / "y" / "00000").iterdir()
    )


def test_started_again_it_does_what_is_missing(run: Any, tmp_path: pathlib.Path) -> None:
    run()
    out = tmp_path / "out"
    gone = sorted((out / "results" / "sum").rglob("*.npy"))[1]
    gone.unlink()
    assert run().done == 0  # the folder is noted as finished
    (out / "done" / "00000.json").unlink()
    summary = run()
    assert (summary.before, summary.done) == (2, 1)
    assert gone.exists()
    assert computed(out) == 4
    assert run().before == 3


def test_nothing_to_do_needs_no_cluster(run: Any, g: dg.Graph, tmp_path: pathlib.Path) -> None:
    run()
    summary = run_chunks(
        *(g, {"x": X, "b": B}, tmp_path / "out"),
        device="cpu",
        chunks={"batch": 4},
        scheduler="tcp://127.0.0.1:1",
        progress=False,
    )
    assert summary.before == 3


@pytest.mark.parametrize("suffix", ["npy", "zarr"])
def test_files_and_stores_are_read_in_parts(run: Any, tmp_path: pathlib.Path, suffix: str) -> None:
    path = tmp_path / f"x.{suffix}"
    if suffix == "npy":
        np.save(path, X.astype(">f4"))
    else:
        zarr = pytest.importorskip("zarr")
        zarr.create_array(path, shape=X.shape, dtype=X.dtype, chunks=(5, 3))[:] = X
    np.save(tmp_path / "b.npy", B)
    run({"x": path, "b": str(tmp_path / "b.npy")})
    np.testing.assert_array_equal(np.concatenate(results(tmp_path / "out", "y")), X * 2 + B)


def test_results_in_a_zarr_store(run: Any, tmp_path: pathlib.Path) -> None:
    zarr = pytest.importorskip("zarr")
    with raises(dg.GraphError, "sizes", field="outputs.sum", got=[1, 1]):
        run(zarr=True)
    rows = dg.Graph("rows", dims={"batch": 4, "wide": 3})
    x = rows.input("x", sizes=["batch", "wide"], dtype="float32")
    rows.output("turned", x.transpose(1, 0) * 2)
    scale = rows.constant("scale", [[1]], dtype="float32")
    rows.output("four", dg.quantize(x, [scale], quantization_type="scale", dtype="int4"))
    shape = {"batch": 4, "wide": 2}
    assert run({"x": X % 8}, graph=rows, chunks=shape, zarr=True, out="z").done == 6
    store = zarr.open_group(tmp_path / "z" / "results.zarr", mode="r")
    np.testing.assert_array_equal(store["turned"][:], (X % 8).T * 2)
    np.testing.assert_array_equal(store["four"][:], X % 8)
    assert store["turned"].chunks == (2, 4)
    assert run({"x": X % 8}, graph=rows, chunks=shape, zarr=True, out="z").before == 6
    shutil.rmtree(tmp_path / "z" / "done")
    assert run({"x": X % 8}, graph=rows, chunks=shape, zarr=True, out="z").done == 6


@pytest.fixture
def photos(tmp_path: pathlib.Path) -> pathlib.Path:
    """Files of different sizes, in folders."""
    for number, name in enumerate(["a", "b", "deep/c", "deep/er/d"]):
        path = tmp_path / "in" / f"{name}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, X[: number + 1])
    (tmp_path / "in" / "notes.txt").write_text("no array", "utf-8")
    return tmp_path / "in"


def test_each_file_of_a_folder_is_a_chunk(run: Any, tmp_path: pathlib.Path, photos: pathlib.Path) -> None:
    run({"x": photos, "b": B}, chunks=None)
    found = {path.relative_to(tmp_path / "out/results/y") for path in (tmp_path / "out/results/y").rglob("*.npy")}
    assert {(path.parent / path.name.rpartition("-")[0]).as_posix() for path in found} == {
        "a",
        "b",
        "deep/c",
        "deep/er/d",
    }
    assert [len(each) for each in results(tmp_path / "out", "y")] == [1, 2, 3, 4]


def test_a_folder_may_grow_and_its_files_change(run: Any, photos: pathlib.Path) -> None:
    given = {"x": photos, "b": B}
    run(given, chunks=None)
    np.save(photos / "new.npy", X)
    np.save(photos / "a.npy", X[:5])
    summary = run(given, chunks=None)
    assert (summary.total, summary.before, summary.done) == (5, 3, 2)


def test_files_of_the_same_name_belong_together(run: Any, tmp_path: pathlib.Path, photos: pathlib.Path) -> None:
    g = dg.Graph(dims={"n": 1})
    one, two = (g.input(name, sizes=["n", 3], dtype="float32") for name in ("one", "two"))
    g.output("y", one - two)
    shutil.copytree(photos, tmp_path / "others")
    (tmp_path / "others" / "b.npy").unlink()
    summary = run({"one": photos, "two": tmp_path / "others"}, graph=g, chunks=None)
    assert (summary.done, summary.failed) == (3, 1)
    (failure,) = (tmp_path / "out" / "failed").rglob("*.json")
    told = json.loads(failure.read_text("utf-8"))
    assert (told["place"], told["code"], told["error"]) == ("b", "unreadable", "BindingError")
    assert "b.npy" in told["message"]


def test_a_chunk_that_fails_does_not_stop_the_others(run: Any, tmp_path: pathlib.Path, photos: pathlib.Path) -> None:
    good = (photos / "b.npy").read_bytes()
    for name, bad in (("a", X.astype(np.float64)), ("b", None), ("deep/c", np.array([object()]))):
        if bad is None:
            (photos / f"{name}.npy").write_bytes(good[:100])
        else:
            np.save(photos / f"{name}.npy", bad, allow_pickle=True)
    summary = run({"x": photos, "b": B}, chunks=None)
    assert (summary.done, summary.failed) == (1, 3)
    failures = {
        (told := json.loads(path.read_text("utf-8")))["place"]: told
        for path in (tmp_path / "out" / "failed").rglob("*.json")
    }
    assert {place: told["code"] for place, told in failures.items()} == {
        "a": "dtype",
        "b": "unreadable",
        "deep/c": "unreadable",
    }
    assert "never loaded" in failures["deep/c"]["message"]  # nothing is unpickled
    # They are tried again; the same file is the same chunk only if it did not change.
    for name in ("a", "b", "deep/c"):
        np.save(photos / f"{name}.npy", X)
    summary = run({"x": photos, "b": B}, chunks=None)
    assert (summary.before, summary.done, summary.failed) == (1, 3, 0)


def test_a_failure_is_forgotten_when_its_chunk_is_done(
    run: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute = Runner.run

    def failing(self: Any, arrays: Any) -> Any:
        if arrays["x"][0, 0] == 12:
            raise MemoryError("as if")
        return compute(self, arrays)

    monkeypatch.setattr(Runner, "run", failing)
    assert run().failed == 1
    assert json.loads(next((tmp_path / "out" / "failed").rglob("*.json")).read_text("utf-8"))["message"] == "as if"
    monkeypatch.undo()
    summary = run()
    assert (summary.before, summary.done, summary.failed) == (2, 1, 0)
    assert not list((tmp_path / "out" / "failed").rglob("*.json"))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"graph": "other"}, "graph.sha256"),
        ({"inputs": {"x": X + 1, "b": B}}, "inputs.x.sha256"),
        ({"inputs": {"x": X, "b": B + 1}}, "inputs.b.sha256"),
        ({"inputs": {"x": X[:5], "b": B}}, "inputs.x.sha256"),
        ({"chunks": {"batch": 2}}, "chunks.batch"),
        ({"device": "reference"}, "device"),
        ({"fuse": False}, "fuse"),
    ],
    ids=str,
)
def test_results_of_something_else_are_refused(run: Any, change: Any, field: str) -> None:
    run()
    if "graph" in change:
        other = dg.Graph("rows", dims={"batch": 4})
        y = other.input("x", sizes=["batch", 3], dtype="float32") * 3 + other.input("b", sizes=[1, 3], dtype="float32")
        other.output("y", y)
        other.output("sum", dg.reduce(y, function="sum", axes=[0, 1]))
        change = {"graph": other}
    with raises(dg.GraphError, "other-results", field=field):
        run(**change)


def test_a_changed_file_is_refused(run: Any, tmp_path: pathlib.Path) -> None:
    np.save(tmp_path / "x.npy", X)
    given = {"x": tmp_path / "x.npy", "b": B}
    run(given)
    np.save(tmp_path / "x.npy", X + 1)
    os.utime(tmp_path / "x.npy", ns=(0, 1))
    with pytest.raises(dg.GraphError) as told:
        run(given)
    assert told.value.field == "inputs.x.modified_ns"


def test_a_folder_with_other_files_is_refused(run: Any, tmp_path: pathlib.Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("", "utf-8")
    with raises(dg.GraphError, "other-results", field=None):
        run()


@pytest.mark.parametrize(
    ("inputs", "options", "message"),
    [
        ({"x": X}, {}, "inputs are missing: b"),
        ({"x": X, "b": B, "c": B}, {}, "is not an input"),
        ({"x": X, "b": B}, {"chunks": {"bach": 4}}, r"chunks\.bach.*did you mean 'batch'"),
        ({"x": X, "b": B}, {"chunks": {"batch": 0}}, "at least 1"),
        ({"x": X[:, :2], "b": B}, {}, r"another shape; got \[11, 2\]; allowed: \[11, 3\]"),
        ({"x": X.astype(int), "b": B}, {}, "another data type; got int64"),
        ({"x": "nowhere.npy", "b": B}, {}, "cannot be read"),
        ({"x": "nowhere", "b": B}, {}, "is not a folder"),
        ({"x": "nowhere.zarr", "b": B}, {}, "no Zarr array"),
        ({"x": ".", "b": B}, {}, "chunk"),
    ],
    ids=str,
)
def test_what_is_wrong_is_said_before_anything_is_done(
    run: Any, tmp_path: pathlib.Path, inputs: Any, options: Any, message: str
) -> None:
    with pytest.raises(dg.DmlGraphError, match=message):
        run(inputs, **options)
    assert not (tmp_path / "out").exists()


def test_a_device_that_is_missing_stops_the_job(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: Any, **__: Any) -> None:
        raise dg.DeviceError("the adapter does not exist", code="adapter")

    monkeypatch.setattr(
        recipe, "_EXECUTABLES", OncePerKey(1)
    )  # another test may have compiled the graph in this process
    monkeypatch.setattr(dg.Graph, "compile", missing)
    with pytest.raises(dg.DeviceError, match=r"cannot be compiled for 'cpu' on .*: the adapter does not exist"):
        run()


def test_a_graph_that_a_worker_does_not_see_stops_the_job(g: dg.Graph, spawned: Any, tmp_path: pathlib.Path) -> None:
    g.save(tmp_path / "g.yaml")
    found = job_of(Runner(tmp_path / "g.yaml", device="cpu"), {"x": X, "b": B}, tmp_path / "out", None, False)
    (tmp_path / "g.yaml").write_text("dmlgraph: 1\ninputs: {x: {dtype: float32, sizes: [1]}}\noutputs: [x]\n", "utf-8")
    _, ((chunk,),) = zip(*found.groups(), strict=True)
    with raises(dg.GraphError, "other-graph"):
        spawned.submit(window.compute, found, [chunk], pure=False).result()
    assert not (tmp_path / "out" / "failed").exists()


def test_chunks_of_8_mib_are_cut_along_the_first_axis(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "CHUNK_BYTES", 60)
    assert run(chunks=None).total == 3  # of 5 rows of 12 bytes


def test_four_bits_are_stored_in_eight(run: Any, tmp_path: pathlib.Path) -> None:
    g = dg.Graph(dims={"n": 2})
    scale = g.constant("scale", [1], dtype="float32")
    g.output("y", dg.dequantize(g.input("x", sizes=["n"], dtype="int4"), [scale], quantization_type="scale"))
    np.save(tmp_path / "x.npy", np.arange(-8, 8, dtype=np.int8))
    run({"x": tmp_path / "x.npy"}, graph=g, chunks={"n": 5})
    np.testing.assert_array_equal(np.concatenate(results(tmp_path / "out", "y")), np.arange(-8, 8))
    run({"x": np.arange(-8, 8).astype(ml_dtypes.int4)}, graph=g, chunks={"n": 5}, out="again")


def test_several_folders_of_results(run: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "IN_FOLDER", 4)
    assert run(chunks={"batch": 1}).done == 11
    assert sorted(path.name for path in (tmp_path / "out" / "results" / "y").iterdir()) == ["00000", "00001", "00002"]
    assert len(list((tmp_path / "out" / "done").iterdir())) == 3
    np.testing.assert_array_equal(np.concatenate(results(tmp_path / "out", "y")), X * 2 + B)


def test_files_that_a_killed_process_left_go_after_an_hour(run: Any, tmp_path: pathlib.Path) -> None:
    run()
    folder = tmp_path / "out" / "results" / "y" / "00000"
    (tmp_path / "out" / "done" / "00000.json").unlink()
    old, new = folder / ".dmlgraph-old", folder / ".dmlgraph-new"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    run()
    assert not old.exists()
    assert new.exists()


def test_spawned_workers_do_the_same(g: dg.Graph, spawned: Any, tmp_path: pathlib.Path) -> None:
    g.save(tmp_path / "g.yaml")
    np.save(tmp_path / "x.npy", X)
    given = {"x": tmp_path / "x.npy", "b": B}
    options: Any = {"device": "cpu", "chunks": {"batch": 1}, "client": spawned, "progress": False}
    summary = run_chunks(tmp_path / "g.yaml", given, tmp_path / "out", **options)
    assert summary.done == 11
    np.testing.assert_array_equal(np.concatenate(results(tmp_path / "out", "y")), X * 2 + B)
    assert computed(tmp_path / "out") == 11


def test_a_chunk_that_ends_its_worker_is_a_failure(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask gives a task up after some workers have died of it; those that were in one task with it are tried alone."""
    from distributed.scheduler import KilledWorker

    def deadly(job: Any, batch: Any) -> Any:
        if any(chunk.place["batch"][0] == 4 for chunk in batch):
            raise KilledWorker("task", types.SimpleNamespace(address="tcp://127.0.0.1:1"), 4)
        return compute(job, batch)

    compute = window.compute
    monkeypatch.setattr(window, "compute", deadly)
    monkeypatch.setattr(window, "TASK_SECONDS", 1000.0)
    summary = run(chunks={"batch": 2})
    assert (summary.done, summary.failed) == (5, 1)


def test_a_result_that_its_worker_takes_along_is_computed_again(
    g: dg.Graph, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker may die after its task has ended, before anybody has asked for what the task returned."""
    gate = tmp_path / "closed"
    compute, following = window.compute, window.Window._next
    lost: list[str] = []

    def behind_the_gate(job: Any, batch: Any) -> Any:
        while gate.exists():
            time.sleep(0.01)
        return compute(job, batch)

    def lose(tasks: window.Window) -> Any:
        future = following(tasks)
        if not lost:
            gate.touch()
            ((address,),) = client.who_has([future]).values()
            (worker,) = (each for each in client.cluster.workers.values() if each.address == address)
            client.sync(worker.close, executor_wait=False)
            while future.status == "finished":
                time.sleep(0.01)
            lost.append(future.status)
            gate.unlink()
        return future

    monkeypatch.setattr(window, "compute", behind_the_gate)
    monkeypatch.setattr(window.Window, "_next", lose)
    with workers_inside(2) as client:
        options: Any = {"device": "cpu", "chunks": {"batch": 1}, "client": client, "progress": False}
        summary = run_chunks(g, {"x": X, "b": B}, tmp_path / "out", **options)
    assert lost == ["lost"]
    assert (summary.done, summary.failed) == (11, 0)
    np.testing.assert_array_equal(np.concatenate(results(tmp_path / "out", "y")), X * 2 + B)
    assert computed(tmp_path / "out") in (11, 12)  # a thread of the closed worker may end its next task


def test_the_last_tasks_are_small(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that has much to do while the others have nothing holds the job up."""
    sizes = []
    take = window.Todo.take

    def counted(todo: window.Todo, most: int) -> Any:
        taken = take(todo, most)
        sizes.append(len(taken))
        return taken

    monkeypatch.setattr(window.Todo, "take", counted)
    monkeypatch.setattr(window, "compute", lambda job, batch: (0, 0.0))  # done at once
    x = np.zeros((400, 3), np.float32)
    assert run({"x": x, "b": B}, chunks={"batch": 1}).done == 400
    sizes = [size for size in sizes if size]
    assert sum(sizes) == 400
    assert 8 < max(sizes) <= 100  # tasks grow as it is found how short chunks are, and none is a large part of all
    assert sizes[-3:] == [1, 1, 1]


# Progress.


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_lines_tell_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("dmlgraph.distributed.progress.time.monotonic", lambda: now)
    stream = io.StringIO()
    progress = Progress(400, stream=stream)
    progress.advance(skipped=100)
    now = 105
    progress.advance(49)
    assert stream.getvalue() == ""
    now = 110
    progress.advance(50, 1)
    assert stream.getvalue() == "199/400 chunks, 1 failed, 10/s, 0:00:20 left\n"
    now = 130
    progress.advance(200)
    progress.end()
    assert stream.getvalue().splitlines()[-1] == "399/400 chunks, 1 failed, 10/s in 0:00:30"


def test_a_bar_fills_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("dmlgraph.distributed.progress.time.monotonic", lambda: now)
    stream = Terminal()
    progress = Progress(4, stream=stream)
    now = 3600.0
    progress.advance(2)
    assert stream.getvalue() == f"\r[{'#' * 15}{'-' * 15}] 2/4 chunks, 0.000556/s, 1:00:00 left\x1b[K"
    progress.end()
    assert stream.getvalue().endswith("\x1b[K\n")
    quiet = Progress(4, quiet=True)
    quiet.advance(4)
    quiet.end()
