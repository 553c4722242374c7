"""Models that expand to many nodes: small files that would never end."""

from __future__ import annotations

import pathlib

import onnx
import pytest

import dmlgraph as dg
from dmlgraph.formats.onnx import importer

HEAD = '<ir_version: 10, opset_import: ["" : 21, "local" : 1]>'
DOUBLING = f"{HEAD} g (float[2] x) => (float[2] y) {{ y = local.f40 (x) }}" + "".join(
    f'<domain: "local", opset_import: ["" : 21, "local" : 1]> f{index} (v) => (o) {{ {body} }}'
    for index, body in enumerate(
        ["o = Neg (v)", *(f"a = local.f{index} (v) o = local.f{index} (a)" for index in range(40))]
    )
)
LOOPS = """g (float[2] x) => (float[2] y) <int64 n = {1000}, bool c = {1}> {
  y = Loop (n, c, x) <body = a (int64 i, bool c1, float[2] s1) => (bool d1, float[2] t1) {
    d1 = Identity (c1)
    t1 = Loop (n, c, s1) <body = b (int64 j, bool c2, float[2] s2) => (bool d2, float[2] t2) {
      d2 = Identity (c2)
      t2 = Loop (n, c, s2) <body = e (int64 k, bool c3, float[2] s3) => (bool d3, float[2] t3) { INNER }>
    }>
  }>
}"""
SCANS = """g (float[1000, 2] x) => (float[1000] y) {
  y = Scan <num_scan_inputs = 1, body = a (float[2] p) => (float q) {
    z = Scan <num_scan_inputs = 1, body = b (float[2] r) => (float s) { s = ReduceSum <keepdims = 0> (r) }> (x)
    q = ReduceSum <keepdims = 0> (z)
  }> (x)
}"""
MODELS = {
    "functions": DOUBLING,
    "loops": HEAD + LOOPS.replace("INNER", "d3 = Identity (c3) t3 = Neg (s3)"),
    "loops without nodes": HEAD
    + LOOPS.replace("INNER", "").replace("(bool d3, float[2] t3)", "(bool c3, float[2] s3)"),
    "scans": HEAD + SCANS,
}


@pytest.mark.parametrize("what", MODELS)
def test_what_expands_to_too_many_nodes_is_refused_once(
    what: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert importer.MOST_NODES == 100_000
    monkeypatch.setattr(importer, "MOST_NODES", 3000)
    onnx.save_model(onnx.parser.parse_model(MODELS[what]), tmp_path / "model.onnx")
    with pytest.raises(dg.ModelError) as caught:
        dg.load(tmp_path / "model.onnx")
    (problem,) = caught.value.problems
    assert (problem.code, problem.allowed) == ("too-large", "at most 3,100")
    assert problem.node is not None
    assert problem.node.startswith("y")


def test_nodes_of_the_file_itself_do_not_count(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importer, "MOST_NODES", -2000)
    nodes = "".join(f"x{index + 1} = Neg (x{index})" for index in range(20))
    text = f"{HEAD} g (float[2] x0) => (float[2] x20) {{ {nodes} }}"
    onnx.save_model(onnx.parser.parse_model(text), tmp_path / "model.onnx")
    assert len(dg.load(tmp_path / "model.onnx").nodes) == 21
