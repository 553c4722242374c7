"""Weights of models are read from their files once, wherever they begin."""

from __future__ import annotations

import gc
import mmap
import os
import pathlib
import time
import weakref

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.problems import raises

import dmlgraph as dg
from dmlgraph.files import mapped_arrays as mapped
from dmlgraph.files.mapped_arrays import LEAST, taken_out
from dmlgraph.formats.onnx.weights import Places, without_weights

SIDE = 160  # a matrix of more than LEAST bytes
assert SIDE * SIDE * 4 >= LEAST


def _model(rng: np.random.Generator, padding: int = 0) -> tuple[onnx.ModelProto, list[np.ndarray]]:
    """x · w + b, with w an initializer and b an attribute; `padding` moves where w begins."""
    w, b = (rng.standard_normal((SIDE, SIDE), np.float32) for _ in range(2))
    nodes = [
        helper.make_node("Constant", [], ["b"], value=numpy_helper.from_array(b, "b")),
        helper.make_node("MatMul", ["x", "w"], ["sums"]),
        helper.make_node("Add", ["sums", "b"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, (SIDE, SIDE)) for name in "xy")
    graph = helper.make_graph(nodes, "g" * (1 + padding), [x], [y], [numpy_helper.from_array(w, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), [w, b]


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize("padding", range(4))
def test_results_do_not_depend_on_where_weights_lie(tmp_path: pathlib.Path, external: bool, padding: int) -> None:
    rng = np.random.default_rng(padding)
    model, (w, b) = _model(rng, padding)
    path = tmp_path / "a model: 1.onnx"  # a name that external data must not have
    onnx.save_model(model, path, save_as_external_data=external, location="weights.bin")
    x = rng.standard_normal((SIDE, SIDE), np.float32)
    graph = dg.load(path)
    wanted = x.astype(np.float64) @ w + b
    executable = graph.compile("cpu")
    np.testing.assert_allclose(executable.run({"x": x})["y"], wanted, rtol=1e-4, atol=1e-4)
    again = tmp_path / "again.onnx"
    dg.save(graph, again)
    np.testing.assert_array_equal(dg.load(again).compile("cpu").run({"x": x})["y"], executable.run({"x": x})["y"])
    dg.save(graph, path, force=True)  # over what was mapped
    np.testing.assert_allclose(dg.load(path).compile("cpu").run({"x": x})["y"], wanted, rtol=1e-4, atol=1e-4)


def test_a_message_without_weights_is_small_and_has_the_rest() -> None:
    model, (w, b) = _model(np.random.default_rng(0))
    data = model.SerializeToString()
    places = Places("model.onnx")
    small = without_weights(memoryview(data), places)
    assert len(small) < 1000
    found = onnx.ModelProto.FromString(small)
    tensors = {"w": (found.graph.initializer[0], w), "b": (found.graph.node[0].attribute[0].t, b)}
    for name, (tensor, array) in tensors.items():
        assert tensor.name == name
        place = places.read(tensor.raw_data)
        assert place is not None
        assert data[place[0] : sum(place)] == array.tobytes()
        assert Places("model.onnx").read(tensor.raw_data) is None
        tensor.raw_data = array.tobytes()
    assert found == model


@pytest.mark.parametrize("cut", [1, 100, LEAST])
def test_refuses_files_that_end_too_early(tmp_path: pathlib.Path, cut: int) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(_model(np.random.default_rng(0))[0].SerializeToString()[:-cut])
    with raises(dg.ModelError, "model"):
        dg.load(path)


def test_refuses_weights_of_another_size(tmp_path: pathlib.Path) -> None:
    model, _ = _model(np.random.default_rng(0))
    model.graph.initializer[0].raw_data += b"more"
    path = tmp_path / "model.onnx"
    onnx.save_model(model, path)
    with raises(dg.ModelError, "model", node="w", got=102404):
        dg.load(path)


def test_reads_a_model_with_several_names(tmp_path: pathlib.Path) -> None:
    path, other = tmp_path / "model.onnx", tmp_path / "other.onnx"
    onnx.save_model(_model(np.random.default_rng(0))[0], path)
    os.link(path, other)
    dg.load(other)


def test_a_graph_does_not_change_with_the_file(tmp_path: pathlib.Path) -> None:
    model, (w, b) = _model(np.random.default_rng(0))
    path = tmp_path / "model.onnx"
    onnx.save_model(model, path, save_as_external_data=True, location="weights.bin")
    graph = dg.load(path)
    for name in ("model.onnx", "weights.bin"):
        with open(tmp_path / name, "r+b") as file:  # written over where it lies, and cut
            file.write(bytes(1000))
            file.truncate(1000)
    x = np.eye(SIDE, dtype=np.float32)
    np.testing.assert_allclose(graph.compile("cpu").run({"x": x})["y"], w + b, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("external", [False, True])
def test_imports_of_a_file_share_its_weights_while_it_stays_as_it_is(tmp_path: pathlib.Path, external: bool) -> None:
    path, x = tmp_path / "model.onnx", np.eye(SIDE, dtype=np.float32)

    def write(seed: int, age: float) -> np.ndarray:
        model, (w, b) = _model(np.random.default_rng(seed))
        onnx.save_model(model, path, save_as_external_data=external, location="weights.bin")
        for each in tmp_path.iterdir():
            os.utime(each, (time.time() - age,) * 2)
        return w + b

    def weights(graph: dg.Graph) -> np.ndarray:
        found = graph.node("w").data  # type: ignore[union-attr]  # it is a constant
        assert isinstance(found, np.ndarray)
        return found

    wanted = write(0, age=60)
    first, again = dg.load(path), dg.load(path)
    assert np.shares_memory(weights(first), weights(again))
    changed = write(1, age=30)
    third = dg.load(path)
    assert not np.shares_memory(weights(first), weights(third))
    for graph, sums in ((first, wanted), (again, wanted), (third, changed)):
        np.testing.assert_allclose(graph.compile("cpu").run({"x": x})["y"], sums, rtol=1e-6, atol=1e-6)
    write(2, age=0)  # what is written next may have the same time
    assert not np.shares_memory(weights(dg.load(path)), weights(dg.load(path)))


def test_takes_an_array_out_of_a_file_in_pieces(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped, "_PIECE", 10000)
    numbers = np.arange(15001, dtype=np.uint16).reshape(7, 2143)
    np.save(tmp_path / "w.npy", numbers)
    taken = taken_out(np.load(tmp_path / "w.npy", mmap_mode="r"))
    np.testing.assert_array_equal(taken, numbers)
    assert type(taken) is np.ndarray
    assert not taken.flags.writeable
    graph = dg.Graph()
    graph.constant("w", taken)
    assert np.shares_memory(graph.node("w").data, taken)  # type: ignore[union-attr]


def test_gives_back_the_memory_of_mapped_arrays_only(tmp_path: pathlib.Path) -> None:
    numbers = np.arange(10000, dtype=np.float32)
    np.save(tmp_path / "w.npy", numbers)
    changed = np.load(tmp_path / "w.npy", mmap_mode="c")
    changed[:] = -numbers
    anonymous = np.frombuffer(mmap.mmap(-1, numbers.nbytes), np.float32)
    anonymous[:] = numbers
    for each in (numbers, changed, anonymous, np.load(tmp_path / "w.npy", mmap_mode="r")[1:]):
        before = each.copy()
        np.testing.assert_array_equal(taken_out(each), before)
        np.testing.assert_array_equal(each, before)  # it can still be read


def test_a_graph_that_nobody_has_goes_at_once(tmp_path: pathlib.Path) -> None:
    """With its weights, which are not held until all objects are searched for cycles."""
    path = tmp_path / "model.onnx"
    onnx.save_model(_model(np.random.default_rng(0))[0], path)
    gc.disable()
    try:
        graph = dg.load(path)
        graph.compile("cpu")
        there = weakref.ref(graph)
        del graph
        assert there() is None
    finally:
        gc.enable()
