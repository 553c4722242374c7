"""Dims of models that stay dims of the graph."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

import numpy as np
import onnx
import onnxruntime
import pytest
from support.problems import raises

import dmlgraph as dg

ATTENTION = """
  h = MatMul(x, w)
  shape = Shape(h)
  zero = Constant<value_ints=[0]>()
  one = Constant<value_ints=[1]>()
  b = Gather(shape, zero)
  s = Gather(shape, one)
  two = Constant<value_ints=[2]>()
  four = Constant<value_ints=[4]>()
  target = Concat<axis=0>(b, s, two, four)
  r = Reshape(h, target)
  t = Transpose<perm=[0,2,1,3]>(r)
  tt = Transpose<perm=[0,1,3,2]>(t)
  scores = MatMul(t, tt)
  p = Softmax<axis=-1>(scores)
  m = MatMul(p, t)
  back = Transpose<perm=[0,2,1,3]>(m)
  y = Reshape(back, shape)
"""
FLAT = """
  shape = Shape(x)
  zero = Constant<value_ints=[0]>()
  one = Constant<value_ints=[1]>()
  b = Gather(shape, zero)
  s = Gather(shape, one)
  rows = Mul(b, s)
  eight = Constant<value_ints=[8]>()
  target = Concat<axis=0>(rows, eight)
  flat = Reshape(x, target)
  scaled = MatMul(flat, w)
  y = Reshape(scaled, shape)
"""
# The class token of a vision transformer, repeated for the batch.
TOKEN = """
  token = Constant<value = float[1, 1, 8] {1, 2, 3, 4, 5, 6, 7, 8}>()
  shape = Shape(x)
  zero = Constant<value_ints=[0]>()
  b = Gather(shape, zero)
  one_eight = Constant<value_ints=[1, 8]>()
  target = Concat<axis=0>(b, one_eight)
  tokens = Expand(token, target)
  joined = Concat<axis=1>(tokens, x)
  y = MatMul(joined, w)
"""


def model(folder: pathlib.Path, body: str, inputs: str = "float[batch, seq, 8] x, float[8, 8] w") -> pathlib.Path:
    text = f'<ir_version: 8, opset_import: ["" : 17]> g ({inputs}) => (float[p, q, r] y) {{{body}}}'
    made = onnx.parser.parse_model(text)
    onnx.save(made, folder / "model.onnx")
    return folder / "model.onnx"


def check(graph: dg.Graph, path: pathlib.Path, dims: Mapping[str, int]) -> None:
    """The graph with other sizes computes what ONNX Runtime does."""
    sized = graph.with_dims(dims)
    random = np.random.default_rng(0)
    inputs = {node.name: random.normal(size=node.desc.sizes).astype(np.float32) for node in sized.inputs}
    (expected,) = onnxruntime.InferenceSession(path).run(None, inputs)
    with sized.compile("cpu") as exe:
        np.testing.assert_allclose(exe.run(inputs)["y"], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("body", [ATTENTION, FLAT, TOKEN])
@pytest.mark.parametrize("dims", [{"batch": 1, "seq": 16}, {"batch": 2, "seq": 3}])
def test_sizes_follow_the_dims(body: str, dims: Mapping[str, int], tmp_path: pathlib.Path) -> None:
    path = model(tmp_path, body)
    graph = dg.load(path, dims=dims, keep_dims=True)
    assert (graph.dims, graph.origin.fixed) == (dims, {})
    check(graph, path, {"batch": 3, "seq": 5})
    check(graph, path, {"batch": 1, "seq": 1})
    assert dg.load(path, dims=dims).dims == {}


def test_bounds_follow_and_places_are_names(tmp_path: pathlib.Path) -> None:
    body = """
      shape = Shape<start=1, end=2>(x)
      two = Constant<value_ints=[2]>()
      one = Constant<value_ints=[1]>()
      half = Div(shape, two)
      first = Slice(x, half, shape, one)
      y = Add(first, first)
    """
    path = model(tmp_path, body, "float[3, ?, 8] x")
    graph = dg.load(path, dims={"x[1]": 32}, keep_dims=True)
    assert graph.dims == {"x_1": 32}
    assert graph.outputs["y"].sizes == (3, 16, 8)
    check(graph, path, {"x_1": 11})


def test_what_cannot_follow_is_fixed_and_named(tmp_path: pathlib.Path) -> None:
    body = """
      shape = Shape<start=1, end=2>(x)
      total = Squeeze(shape)
      zero = Constant<value_int=0>()
      one = Constant<value_int=1>()
      places = Range(zero, total, one)
      floats = Cast<to=1>(places)
      axis = Constant<value_ints=[1]>()
      column = Unsqueeze(floats, axis)
      y = Add(x, column)
    """
    path = model(tmp_path, body, "float[batch, seq, 8] x")
    graph = dg.load(path, dims={"batch": 1, "seq": 7}, keep_dims=True)
    assert list(graph.origin.fixed) == ["seq"]
    assert "constant" in graph.origin.fixed["seq"]
    assert graph.warnings() == []
    check(graph, path, {"batch": 3})
    with raises(dg.GraphError, "fixed-dim", field="dims.seq", got=8):
        graph.with_dims({"seq": 8})
    graph.save(tmp_path / "again.yaml")
    check(dg.load(tmp_path / "again.yaml", dims={"batch": 2}), path, {})
    with raises(dg.DmlGraphError, "fixed-dim", field="dims.seq", got=8):
        dg.load(tmp_path / "again.yaml", dims={"seq": 8})


def test_a_size_of_1_may_become_another_one(tmp_path: pathlib.Path) -> None:
    """What is repeated over one image is left out where there is one."""
    body = """
      shape = Shape<start=0, end=1>(x)
      one = Constant<value_ints=[1, 8]>()
      target = Concat<axis=0>(shape, one)
      many = Expand(token, target)
      y = Concat<axis=1>(many, x)
    """
    path = model(tmp_path, body, "float[batch, 4, 8] x, float[1, 1, 8] token")
    graph = dg.load(path, dims={"batch": 1}, keep_dims=True)
    assert (graph.dims, graph.origin.fixed) == ({"batch": 1}, {})
    check(graph, path, {"batch": 1})
    check(graph, path, {"batch": 3})


def test_a_graph_file_has_its_dims(tmp_path: pathlib.Path) -> None:
    (tmp_path / "graph.yaml").write_text("dmlgraph: 1", "utf-8")
    with raises(dg.DocumentError, "unknown-field", field="keep_dims"):
        dg.load(tmp_path / "graph.yaml", keep_dims=True)
