"""Recorded values: files, other libraries' names, other graphs, and a changed weight."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
from support.problems import raises

import dmlgraph as dg
from dmlgraph.doctor.find import find
from dmlgraph.doctor.finding import Kind
from dmlgraph.doctor.golden import Golden, check_recorded, record
from dmlgraph.formats import safetensors

X = {"x": np.array([[1, -2, 3]], np.float32)}


def network(weight: float = 2.0) -> dg.Graph:
    """y = relu(x · w + 1)."""
    graph = dg.Graph("network")
    x = graph.input("x", sizes=[1, 3], dtype="float32")
    w = graph.constant("w", np.array([[weight, 3, 4]], np.float32))
    more = dg.add(dg.multiply(x, w, name="block/product"), 1.0, name="block/sum")
    graph.output("y", dg.activation_relu(more, name="last"))
    return graph


def test_values_are_recorded_by_name_and_read_again(tmp_path: pathlib.Path) -> None:
    golden = record(network(), "reference", X)
    np.testing.assert_array_equal(golden.values["block/product"], [[2, -6, 12]])
    np.testing.assert_array_equal(golden.values["last"], [[3, 0, 13]])
    golden.save(tmp_path / "values.npz")
    again = Golden.load(tmp_path / "values.npz")
    assert again.digest == golden.digest != ""
    assert again.values.keys() == golden.values.keys()
    np.testing.assert_array_equal(again.inputs(network())["x"], X["x"])
    again.check(network())
    assert find(network(), "cpu", X, against=again).kind is Kind.SOUND


def test_chosen_values_are_recorded_with_the_outputs() -> None:
    golden = record(network(), "cpu", X, ["block/sum"])
    assert golden.values.keys() == {"x", "block/sum", "last"}
    with raises(dg.GraphError, "unknown-node", node="block/some"):
        record(network(), "cpu", X, ["block/some"])


def test_a_changed_weight_is_found_where_it_is_read() -> None:
    golden = Golden(record(network(), "reference", X).values)  # without the digest
    finding = find(network(2.5), "cpu", X, against=golden)
    assert (finding.kind, finding.node, finding.group) == (Kind.RECORDED, "block/product", ())
    np.testing.assert_array_equal(finding.got[0], [[2.5, -6, 12]])
    np.testing.assert_array_equal(finding.expected[0], [[2, -6, 12]])


def test_between_recorded_values_the_nodes_are_named_together() -> None:
    golden = Golden({"y": np.array([[3, 0, 13]], np.float32)})  # by the name of the output, as ONNX Runtime has it
    finding = find(network(2.5), "cpu", X, against=golden)
    assert (finding.kind, finding.node) == (Kind.RECORDED, "last")
    assert finding.group == ("block/product", "block/sum", "last")


def test_values_of_another_graph_are_refused(tmp_path: pathlib.Path) -> None:
    record(network(), "reference", X).save(tmp_path / "values.npz")
    golden = Golden.load(tmp_path / "values.npz")
    with raises(dg.GraphError, "other-graph"):
        golden.check(network(2.5))
    with raises(dg.GraphError, "unknown-array", got="foreign"):
        Golden({"foreign": X["x"]}, place="dump.npz").check(network())
    with raises(dg.GraphError, "sizes", node="last", got=[3]):
        Golden({"last": X["x"][0]}, place="dump.npz").check(network())


def test_other_forms_of_files_are_read(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "dump" / "block"
    folder.mkdir(parents=True)
    np.save(folder / "sum.npy", X["x"])
    safetensors.save(tmp_path / "dump.safetensors", {"block/sum": X["x"]})
    for path in (tmp_path / "dump", tmp_path / "dump.safetensors"):
        golden = Golden.load(path)
        assert (list(golden.values), golden.digest) == (["block/sum"], "")
        np.testing.assert_array_equal(golden.values["block/sum"], X["x"])


def test_what_holds_no_values_is_said(tmp_path: pathlib.Path) -> None:
    (tmp_path / "wrong.npz").write_text("not a zip", "utf-8")
    with raises(dg.DocumentError, "array-file"):
        Golden.load(tmp_path / "wrong.npz")
    np.savez(tmp_path / "pickled.npz", x=np.array([{}], object))
    with raises(dg.DocumentError, "array-file"):
        Golden.load(tmp_path / "pickled.npz")


def test_values_of_onnx_runtime_agree_with_the_imported_graph(tmp_path: pathlib.Path) -> None:
    onnx = pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    text = """<ir_version: 8, opset_import: ["" : 18]> g (float[2,3] x) => (float[2,4] y, float[2,4] h)
    <float[3,4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}> { h = MatMul(x, w)
    s = Tanh(h)
    y = Softmax <axis: int = 1>(s) }"""
    onnx.save_model(onnx.parser.parse_model(text), tmp_path / "model.onnx")
    inputs = {"x": np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)}
    y, h = runtime.InferenceSession(tmp_path / "model.onnx").run(["y", "h"], inputs)
    graph = dg.load(tmp_path / "model.onnx")
    golden = Golden({"y": y, "h": h})
    golden.check(graph)
    assert find(graph, "cpu", inputs, against=golden).kind is Kind.SOUND
    wrong = Golden({"y": y, "h": h * np.float32(1.001)})
    assert find(graph, "cpu", inputs, against=wrong).kind is Kind.RECORDED


def test_only_recorded_values_are_overwritten(tmp_path: pathlib.Path) -> None:
    golden, path = record(network(), "reference", X), tmp_path / "values.npz"
    check_recorded(path)
    golden.save(path)
    check_recorded(path)
    np.savez(path, x=X["x"])
    with raises(dg.DmlGraphError, "unwritable"):
        check_recorded(path)
    (tmp_path / "graph.yaml").write_text("dmlgraph: 1", "utf-8")
    with raises(dg.DmlGraphError, "unwritable"):
        check_recorded(tmp_path / "graph.yaml")
