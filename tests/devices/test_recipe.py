"""Graphs and executables in other processes: what is pickled, and what a process keeps of it."""

from __future__ import annotations

import concurrent.futures
import copy
import multiprocessing
import os
import pathlib
import pickle
import threading
from typing import Any

import cloudpickle
import ml_dtypes
import numpy as np
import pytest
from support.problems import raises

import dmlgraph as dg
from dmlgraph import passes
from dmlgraph.base.once_per_key import OncePerKey
from dmlgraph.devices import recipe as recipes
from dmlgraph.devices.executable import Executable
from dmlgraph.devices.recipe import MOST, Recipe, SharedFile, Source

WAYS: dict[str, Any] = {
    "pickle": lambda each: pickle.loads(pickle.dumps(each)),
    "oldest": lambda each: pickle.loads(pickle.dumps(each, protocol=2)),
    "cloudpickle": lambda each: cloudpickle.loads(cloudpickle.dumps(each)),
    "deepcopy": copy.deepcopy,
}
X = np.arange(8, dtype=np.float32).reshape(2, 4)


@pytest.fixture
def g() -> dg.Graph:
    """y = relu(x · w + 1), with a dim and a weight that is too large for the text of a document."""
    graph = dg.Graph("net", dims={"batch": 2}, target="5.0")
    x = graph.input("x", sizes=["batch", 4], dtype="float32")
    w = graph.constant("w", np.random.default_rng(0).normal(size=(4, 100)).astype(np.float32))
    graph.output("y", dg.activation_relu(dg.gemm(x, w) + 1))
    return graph


@pytest.fixture(autouse=True)
def kept(monkeypatch: pytest.MonkeyPatch) -> OncePerKey[Executable]:
    """The executables of this process: none at first."""
    made: OncePerKey[Executable] = OncePerKey(MOST)
    monkeypatch.setattr(recipes, "_EXECUTABLES", made)
    monkeypatch.setattr(recipes, "_SOURCES", OncePerKey(MOST))
    return made


def expected(x: np.ndarray[Any, Any] = X) -> np.ndarray[Any, Any]:
    w = np.random.default_rng(0).normal(size=(4, 100)).astype(np.float32)
    return np.maximum(x @ w + 1, 0)


# Graphs.


@pytest.mark.parametrize("way", [WAYS["pickle"], WAYS["oldest"], WAYS["cloudpickle"]])
def test_a_graph_pickles_as_its_document(g: dg.Graph, way: Any) -> None:
    again = way(g)
    assert (again.name, str(again.target), again.dims) == ("net", "5.0", {"batch": 2})
    np.testing.assert_allclose(again.compile("cpu", dims={"batch": 1}).run({"x": X[:1]})["y"], expected(X[:1]), 1e-5)
    assert Source.of(again).digest == Source.of(g).digest


def test_a_pickled_graph_holds_no_class_of_its_nodes(g: dg.Graph) -> None:
    """Other versions of dmlgraph read it as they read a file."""
    stream = pickle.dumps(g)
    assert b"dmlgraph.formats.yaml.portable" in stream
    assert b"dmlgraph.graph.nodes" not in stream
    assert b"networkx" not in stream


def test_constants_keep_every_bit() -> None:
    g = dg.Graph()
    nan = np.array([0x7FC00123, 0xFFA00001, 0x80000000, 1], np.uint32).view(np.float32)
    g.output("a", g.constant("k", nan))
    g.output("b", g.constant("half", nan.astype(np.float16)))
    g.output("c", g.constant("four", np.array([-8, 7, 3], ml_dtypes.int4)))
    g.output("d", g.constant("wide", np.array([2**63 - 1, -(2**63)], np.int64)))
    again = pickle.loads(pickle.dumps(g))
    for name in ("k", "half", "four", "wide"):
        before, after = g.node(name).data, again.node(name).data  # type: ignore[union-attr]
        assert before.dtype == after.dtype
        assert before.tobytes() == after.tobytes()


def test_an_unfinished_graph_pickles() -> None:
    g = dg.Graph()
    x = g.input("x", sizes=[1], dtype="float32")
    graph, value = pickle.loads(pickle.dumps((g, x)))
    graph.output("y", value + 1)
    assert graph.compile("reference").run({"x": [np.float32(1)]})["y"] == 2


def test_a_fused_graph_does_not_pickle(g: dg.Graph) -> None:
    with raises(dg.GraphError, "fused-graph"):
        pickle.dumps(passes.fuse(g).graph)


def test_tests_beside_a_graph_go_with_it_and_their_files_too(tmp_path: pathlib.Path) -> None:
    np.save(tmp_path / "in.npy", np.array([1, 2], np.float32))
    (tmp_path / "g.yaml").write_text(
        "dmlgraph: 1\ninputs: {x: {dtype: float32, sizes: [2]}}\nnodes: {y: {op: exp, input: x}}\noutputs: [y]\n"
        "tests: {t: {inputs: {x: {file: in.npy}}, expect: {y: {same_as: reference}}}}\n",
        "utf-8",
    )
    stream = pickle.dumps(dg.load(tmp_path / "g.yaml"))
    (tmp_path / "in.npy").unlink()
    again = pickle.loads(stream)
    np.testing.assert_array_equal(again.origin.tests["t"].input_arrays(again)["x"], [1, 2])
    assert pickle.loads(pickle.dumps(again)).origin.tests.keys() == {"t"}
    assert Source.of(again).digest == Source.of(WAYS["pickle"](again)).digest


def test_a_dim_that_decides_the_number_of_nodes_stays_fixed() -> None:
    g = dg.loads(
        "dmlgraph: 1\ndims: {n: 2}\ninputs: {x: {dtype: float32, sizes: [1]}}\n"
        "templates: {t: {inputs: [x], nodes: {y: {op: exp, input: x}}, outputs: [y]}}\n"
        "nodes: {a: {use: t, repeat: n, x: {first: x, then: y}}}\noutputs: [a]\n"
    )
    with raises(dg.GraphError, "fixed-dim", field="dims.n", got=3):
        pickle.loads(pickle.dumps(g)).with_dims({"n": 3})


def test_a_scheduler_sends_a_graph_on_without_reading_it(g: dg.Graph) -> None:
    stream = pickle.dumps(Source.of(g))
    again = pickle.loads(stream)
    assert pickle.dumps(again) == stream
    assert "graph" not in vars(again)
    np.testing.assert_array_equal(again.graph.node("w").data, g.node("w").data)  # type: ignore[union-attr]
    assert pickle.loads(pickle.dumps(again)).digest == Source.of(g).digest


# Executables.


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_an_executable_pickles_as_its_graph_and_how_it_was_compiled(g: dg.Graph, way: Any, device: Any) -> None:
    exe = g.compile(device, dims={"batch": 1}, fuse=False)
    g.output("later", g.value("w"))  # the executable does not have it
    again = way(exe)
    assert again is not exe
    assert again.device == device
    assert again.fusion == exe.fusion
    assert again.run({"x": X[:1]})["y"].tobytes() == exe.run({"x": X[:1]})["y"].tobytes()
    assert list(again.run({"x": X[:1]})) == ["y"]
    assert way(again).run({"x": X[:1]}).keys() == {"y"}


def test_options_go_with_it(g: dg.Graph) -> None:
    rules = [entry.rule for entry in g.compile("cpu").fusion if entry.applied][:1]
    exe = g.compile("cpu", fuse=iter(rules), threads=1, metacommands=False, half_precision=True)
    assert exe.recipe is not None
    again = pickle.loads(pickle.dumps(exe))
    assert (again.recipe.fuse, again.recipe.threads, again.recipe.device) == (tuple(rules), 1, "cpu")
    assert (again.recipe.metacommands, again.recipe.half_precision) == (False, True)
    assert again.stats["threads"] == exe.stats["threads"] == 1


def test_what_is_unpickled_twice_is_compiled_once(
    g: dg.Graph, kept: OncePerKey[Executable], monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = count_compilations(monkeypatch)
    stream = pickle.dumps(g.compile("cpu"))
    compiled.clear()
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: pickle.loads(stream), range(32)))
    assert len({id(each) for each in found}) == len(compiled) == len(kept) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"device": "reference"},
        {"fuse": False},
        {"threads": 1},
        {"dims": {"batch": 1}},
        {"metacommands": False},
        {"half_precision": True},
    ],
    ids=str,
)
def test_what_was_compiled_otherwise_is_another(g: dg.Graph, kept: OncePerKey[Executable], other: Any) -> None:
    given: dict[str, Any]
    for given in ({}, other):
        pickle.loads(pickle.dumps(g.compile(**{"device": "cpu", **given})))
    assert len(kept) == 2


def test_the_same_content_is_the_same_however_it_was_made(g: dg.Graph, kept: OncePerKey[Executable]) -> None:
    same, other = pickle.loads(pickle.dumps(g)), copy.deepcopy(g)
    other.output("z", other.value("w"))
    for each in (g, same, other):
        pickle.loads(pickle.dumps(each.compile("cpu")))
    assert len(kept) == 2


def test_a_closed_executable_leaves_the_process(g: dg.Graph, kept: OncePerKey[Executable]) -> None:
    stream = pickle.dumps(g.compile("cpu"))
    with pickle.loads(stream) as first:
        assert pickle.loads(stream) is first
    assert len(kept) == 0
    again = pickle.loads(stream)
    assert again is not first
    np.testing.assert_allclose(again.run({"x": X})["y"], expected(), 1e-5)


def test_a_process_keeps_those_used_last() -> None:
    kept: OncePerKey[str] = OncePerKey(2)
    for key in ("a", "b", "a", "c"):
        kept.get(key, lambda key=key: key * 2)  # type: ignore[misc]
    assert len(kept) == 2
    assert kept.get("a", lambda: "made again") == "aa"
    assert kept.get("b", lambda: "made again") == "made again"


def test_what_cannot_be_made_is_tried_again() -> None:
    kept: OncePerKey[int] = OncePerKey(2)
    with pytest.raises(ZeroDivisionError):
        kept.get("a", lambda: 1 // 0)
    assert kept.get("a", lambda: 1) == 1


def test_a_slow_value_keeps_only_those_waiting_that_want_it() -> None:
    kept: OncePerKey[int] = OncePerKey(2)
    go = threading.Event()
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        slow = threads.submit(kept.get, "slow", lambda: int(go.wait(30)))
        assert threads.submit(kept.get, "quick", lambda: 2).result(30) == 2
        go.set()
        assert slow.result(30) == 1


def test_an_executable_with_owned_inputs_is_shared_with_nobody() -> None:
    g = dg.Graph()
    w = g.input("w", sizes=[2], dtype="float32", owned=True)
    g.output("y", g.input("x", sizes=[2], dtype="float32") * w)
    stream = pickle.dumps(g.compile("cpu"))
    one, other = pickle.loads(stream), pickle.loads(stream)
    x, two, three = np.ones(2, np.float32), np.full(2, 2, np.float32), np.full(2, 3, np.float32)
    one.run({"x": x, "w": two})
    other.run({"x": x, "w": three})
    assert list(one.run({"x": x})["y"]) == [2, 2]
    with raises(dg.BindingError, "missing-input"):
        copy.deepcopy(one).run({"x": x})


def test_weights_are_not_held_twice(g: dg.Graph) -> None:
    exe = g.compile("cpu")
    assert isinstance(exe.recipe, Recipe)
    node = exe.recipe.source.graph.node("w")
    assert node.data is g.node("w").data  # type: ignore[union-attr]
    (array,) = exe.recipe.source.parts[1].values()
    assert array is node.data  # type: ignore[union-attr]


def test_a_device_that_is_missing_elsewhere_is_named(g: dg.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = pickle.dumps(g.compile("cpu"))

    def missing(*_: Any, **__: Any) -> None:
        raise dg.DeviceError("the adapter does not exist", code="adapter", field="device", got="cpu")

    monkeypatch.setattr("dmlgraph.devices.choose", missing)
    monkeypatch.setattr("platform.node", lambda: "far-away")
    message = "the graph 'net' cannot be compiled for 'cpu' on far-away: the adapter does not exist"
    with pytest.raises(dg.DeviceError, match=message) as told:
        pickle.loads(stream)
    assert told.value.code == "adapter"


def test_what_was_not_compiled_by_a_graph_does_not_pickle(g: dg.Graph) -> None:
    from dmlgraph.devices.cpu import CpuDevice

    exe = CpuDevice().compile(g.lower(), reason="")
    for way in WAYS.values():
        with pytest.raises(pickle.PicklingError, match="GraphDesc"):
            way(exe)
    assert copy.copy(exe) is exe


# Other processes.


def run_there(pipe: Any, exe: Executable) -> None:
    pipe.send((os.getpid(), exe.run({"x": X})["y"]))


@pytest.mark.parametrize(
    "method", [each for each in ("spawn", "forkserver") if each in multiprocessing.get_all_start_methods()]
)
def test_another_process_computes_the_same(g: dg.Graph, method: str) -> None:
    context: Any = multiprocessing.get_context(method)
    exe = g.compile("cpu")
    here, there = context.Pipe()
    process = context.Process(target=run_there, args=(there, exe))
    process.start()
    there.close()
    assert here.poll(120)
    number, y = here.recv()
    process.join()
    assert number != os.getpid()
    assert y.tobytes() == exe.run({"x": X})["y"].tobytes()


# Files that all machines see.


def test_a_shared_file_pickles_as_its_path(
    g: dg.Graph, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    g.save(tmp_path / "net.yaml")
    source = SharedFile(tmp_path / "net.yaml", {"batch": 1})
    stream = pickle.dumps(source)
    assert len(stream) < 1000 < g.node("w").data.nbytes  # type: ignore[union-attr]
    again = pickle.loads(stream)
    assert again.digest == source.digest
    assert again.graph.dims == {"batch": 1}
    assert pickle.loads(stream) is again  # the process has read it
    pickle.loads(pickle.dumps(Source.of(again.graph)))
    assert pickle.loads(stream) is again  # the same content in another way is no file
    monkeypatch.setattr(recipes, "_SOURCES", OncePerKey(MOST))
    g.constant("other", [1], dtype="float32")
    g.save(tmp_path / "net.yaml")
    with raises(dg.GraphError, "other-graph"):
        pickle.loads(stream).graph  # noqa: B018


def count_compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the graphs that are compiled, from now on."""
    names: list[str] = []
    compile_graph = dg.Graph.compile

    def counted(self: dg.Graph, *arguments: Any, **options: Any) -> Executable:
        names.append(self.name)
        return compile_graph(self, *arguments, **options)

    monkeypatch.setattr(dg.Graph, "compile", counted)
    return names
