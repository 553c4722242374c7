"""Dims that stay dims of the model: ONNX Runtime runs it with sizes that the graph never had."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import onnx
import pytest
from support.onnx.onnx_runtime import session
from support.problems import raises

import dmlgraph as dg

Array = np.ndarray[Any, Any]


def sizes_of(info: onnx.ValueInfoProto) -> list[str | int]:
    return [dim.dim_param or dim.dim_value for dim in info.type.tensor_type.shape.dim]


def written(graph: dg.Graph, folder: pathlib.Path) -> tuple[onnx.ModelProto, dict[str, str]]:
    fixed = dg.save(graph, folder / "model.onnx", keep_dims=True)
    model = onnx.load(folder / "model.onnx")
    onnx.checker.check_model(model, full_check=True)
    return model, fixed


def assert_follows(graph: dg.Graph, model: onnx.ModelProto, **dims: int) -> None:
    """The model computes with other sizes what the graph computes with them."""
    other, random = graph.with_dims(dims), np.random.default_rng(1)
    feeds = {node.name: random.normal(size=node.desc.sizes).astype(node.desc.dtype.numpy) for node in other.inputs}
    got, expected = session(model.SerializeToString())(feeds), other.compile("reference").run(feeds)
    assert got.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(got[name], array, rtol=1e-4, atol=1e-5)


def attention(batch: int = 1, tokens: int = 5) -> dg.Graph:
    """Heads, a join, a broadcast and a slice that follow the dims."""
    g = dg.Graph("attention", dims={"batch": batch, "tokens": tokens})
    x = g.input("x", sizes=["batch", "tokens", 12], dtype="float32")
    heads = x.reshape("batch", "tokens", 3, 2, 2).transpose(2, 0, 3, 1, 4)
    q, k, v = (heads[index] for index in range(3))
    scores = dg.activation_softmax1(dg.gemm(q, k, trans_b="transpose"), axes=[-1])
    seen = dg.gemm(scores, v).transpose(0, 2, 1, 3).reshape("batch * tokens", 4)
    bias = g.constant("bias", np.array([1, 2, 3, 4], np.float32)).broadcast_to(["batch * tokens", 4])
    g.output("y", (seen + bias).reshape("batch", "tokens", 4))
    g.output("last", x[:, 1:, :].reshape("batch * (tokens - 1)", 12))
    return g


@pytest.mark.parametrize("sizes", [{}, {"batch": 3, "tokens": 2}, {"batch": 2, "tokens": 20}])
def test_sizes_follow_the_dims(sizes: dict[str, int], tmp_path: pathlib.Path) -> None:
    graph = attention()
    model, fixed = written(graph, tmp_path)
    assert not fixed
    assert sizes_of(model.graph.input[0]) == ["batch", "tokens", 12]
    assert sizes_of(model.graph.output[0]) == ["batch", "tokens", 4]
    assert_follows(graph, model, **sizes)
    again = dg.load(tmp_path / "model.onnx", dims={"batch": 2, "tokens": 7})
    assert again.outputs["y"].sizes == (2, 7, 4)


def test_what_a_constant_follows_is_fixed(tmp_path: pathlib.Path) -> None:
    """The places are numbers of the model; the batch stays a dim."""
    g = dg.Graph("places", dims={"batch": 2, "tokens": 3})
    x = g.input("x", sizes=["batch", "tokens"], dtype="float32")
    places = g.fill_value_sequence(sizes=[1, "tokens"], dtype="float32", value_start=0.5, value_delta=1)
    g.output("y", x * places)
    model, fixed = written(g, tmp_path)
    assert list(fixed) == ["tokens"]
    assert sizes_of(model.graph.input[0]) == ["batch", 3]
    assert_follows(g, model, batch=5)


def test_a_dim_that_no_input_has(tmp_path: pathlib.Path) -> None:
    g = dg.Graph("twice", dims={"pairs": 3})
    x = g.input("x", sizes=["2 * pairs", 4], dtype="float32")
    g.output("y", g.constant("k", np.array([[1]], np.float32)).broadcast_to(["pairs", 1]) + x[::2])
    model, fixed = written(g, tmp_path)
    assert list(fixed) == ["pairs"]
    assert "no input has it" in fixed["pairs"]
    assert sizes_of(model.graph.input[0]) == [6, 4]


def test_other_formats_have_them_anyway(tmp_path: pathlib.Path) -> None:
    for name in ("graph.yaml", "graph.json"):
        with raises(dg.DmlGraphError, "unknown-field", field="keep_dims"):
            dg.save(attention(), tmp_path / name, keep_dims=True)
    assert dg.save(attention(), tmp_path / "graph.yaml") == {}
    assert dg.load(tmp_path / "graph.yaml").dims == {"batch": 1, "tokens": 5}
