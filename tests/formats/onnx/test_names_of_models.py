"""Names of a model: labels of nodes, scopes of their `/`, names of weights."""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.onnx.node_cases import arrays, cases, imported, is_expanded

import dmlgraph as dg
from dmlgraph import picture
from dmlgraph.formats import yaml as document
from dmlgraph.formats.onnx.importer import Importer
from dmlgraph.formats.onnx.model import prepare
from dmlgraph.formats.onnx.names import LONGEST, as_label
from dmlgraph.graph.nodes import OperatorNode

FLOAT = onnx.TensorProto.FLOAT
X = np.arange(4, dtype=np.float32)


def chain(names: list[str], weights: list[str] | None = None) -> onnx.ModelProto:
    """A model that adds a weight in each node: 1 in the first, 2 in the second, …"""
    weights = weights or [f"w{index}" for index in range(len(names))]
    infos = [onnx.helper.make_tensor_value_info(name, FLOAT, [4]) for name in ("in put", "out put")]
    values = ["in put", *(f"value {index}" for index in range(len(names) - 1)), "out put"]
    nodes = [
        onnx.helper.make_node("Add", [values[index], weight], [values[index + 1]], name=name)
        for index, (name, weight) in enumerate(zip(names, weights, strict=True))
    ]
    data = [
        onnx.numpy_helper.from_array(np.full(4, index + 1, np.float32), name)
        for index, name in enumerate(dict.fromkeys(weights))
    ]
    return onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", infos[:1], infos[1:], data))


def graph_of(model: onnx.ModelProto, **options: Any) -> dg.Graph:
    prepared = prepare(ir.from_proto(model))
    given = {"dims": {}, "values": {}, "target": None, "convert": None} | options
    return Importer(prepared, **given).read()


def operators(graph: dg.Graph) -> list[str]:
    return [node.name for node in graph.nodes if isinstance(node, OperatorNode)]


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("/encoder/layer.0/MatMul", "encoder/layer.0/MatMul"),
        ("encoder//x/", "encoder/x"),
        (" a / b ", "a/b"),
        ("a\nb\x00", "a_b_"),
        ("größe/層", "größe/層"),
        ("///", ""),
        ("", ""),
    ],
)
def test_labels_have_the_parts_of_a_name(name: str, label: str) -> None:
    assert as_label(name) == label


def test_names_are_scopes() -> None:
    graph = graph_of(chain(["/encoder/layer.0/add", "/encoder/layer.1/add", "/head"], ["l0.w", "l1.w", "head.w"]))
    names = ["in put", "l0.w", "encoder/layer.0/add", "l1.w", "encoder/layer.1/add", "head.w", "head"]
    assert [node.name for node in graph.nodes] == names
    assert list(graph.outputs) == ["out put"]


def test_names_that_differ_in_a_slash_or_collide_get_a_number() -> None:
    names = operators(graph_of(chain(["a", "/a", "a/", "a", "a_1", "a/b"])))
    assert names == ["a", "a_2", "a_3", "a_4", "a_1", "a/b"]


def test_a_weight_keeps_its_name_before_a_node() -> None:
    graph = graph_of(chain(["w1", "b"], ["w0", "w1"]))
    assert [node.name for node in graph.nodes] == ["in put", "w0", "w1_1", "w1", "b"]


@pytest.mark.parametrize("names", [("top.output_index", "top", "z"), ("a", "top", "top.output_index")])
def test_a_name_that_means_an_output_of_another_node_gets_a_number(names: tuple[str, ...]) -> None:
    """Where `top` has two outputs, `top.output_index` is one of them."""
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[4] x) => (float[2] y, float[2] z) <int64[1] k = {2}> { a = Relu (x) y, i = TopK (a, k) z = Relu (y) }"""
    model = onnx.parser.parse_model(text)
    for node, name in zip(model.graph.node, names, strict=True):
        node.name = name
    graph = graph_of(model)
    assert ("top" in operators(graph)) + ("top.output_index" in operators(graph)) == 1
    assert document.loads(document.dumps(graph)).outputs["z"].sizes == (2,)


def test_parts_of_a_node_do_not_take_the_name_of_another() -> None:
    """A product with a matrix of other rank needs reshape nodes: MatMul_1 stays the name of the second product."""
    infos = [onnx.helper.make_tensor_value_info(name, FLOAT, [2, 3, 4, 4]) for name in "xy"]
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "w"], ["h"], name="/a/MatMul"),
        onnx.helper.make_node("MatMul", ["h", "w"], ["y"], name="/a/MatMul_1"),
    ]
    weight = onnx.numpy_helper.from_array(np.ones((4, 4), np.float32), "w")
    graph = graph_of(onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", infos[:1], infos[1:], [weight])))
    kinds = {node.name: node.operator.name for node in graph.nodes if isinstance(node, OperatorNode)}
    assert {kinds.get("a/MatMul"), kinds.get("a/MatMul_1")} == {"gemm"}
    assert len(kinds) > 2
    assert all(re.fullmatch(r"a/MatMul(_\d+)*", name) for name in kinds)


def test_what_nodes_become_stays_in_their_scopes() -> None:
    """One case of each operator that ONNX has, named `/outer//in ner/OPERATOR`."""
    seen: set[str] = set()
    for case in cases():
        kind = case.model.graph.node[0].op_type
        if is_expanded(case.name) or kind in seen:
            continue
        model = onnx.ModelProto()
        model.CopyFrom(case.model)
        for node in model.graph.node:
            node.name = f"/outer//in ner/{node.op_type}"
        try:
            graph, _ = imported(model, arrays(case)[0])
        except dg.DmlGraphError:
            continue
        seen.add(kind)
        assert [name for name in operators(graph) if not name.startswith("outer/in ner/")] == [], kind
    assert len(seen) > 150


def test_the_body_of_a_function_is_in_the_scope_of_its_call() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21, "local" : 1]>
    g (float[2] x) => (float[2] y) { h = local.f (x) y = local.f (h) }
    <domain: "local", opset_import: ["" : 21]>
    f (v) => (o) { two = Constant <value = float {2}> () p = Mul (v, two) o = Relu (p) }"""
    model = onnx.parser.parse_model(text)
    model.graph.node[0].name, model.graph.node[1].name = "/first", "/second/"
    model.functions[0].node[1].name = "/inner/product"
    names = [node.name for node in graph_of(model).nodes]
    one = ["first/two", "first/inner/product", "first/o"]
    assert names == ["x", *one, *(name.replace("first", "second") for name in one)]


def test_an_overlong_name_is_cut() -> None:
    graph = graph_of(chain(["a" * 100_000, "a" * 100_001 + "/b", "ab/" * 50_000]))
    assert all(len(node.name) <= LONGEST + 3 for node in graph.nodes)
    assert document.loads(document.dumps(graph)).nodes[-1].name == graph.nodes[-1].name


STRANGE = st.sampled_from("ab/ .:#-'\"{}[]&*!|>%@`~,\t\n\0\x7f\x85é層\u202e\ufeff")
TEXTS = st.text(STRANGE, max_size=8) | st.text(max_size=12)
SPECIAL = st.sampled_from(["null", "true", "1", "1e3", "0x1f", "~", "=", "<<", "y", ".inf", "a", "a/b", "a/b/c", "op"])


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXTS | SPECIAL, min_size=1, max_size=6), st.lists(TEXTS | SPECIAL, min_size=6, max_size=6))
@example(["a", "a/b", "a//b", "/a"], ["a", "b", "/b", "b/", "c", "d"])
@example(["add", "add.output", "fill_value_constant"], ["x", "y", "z", "add_1", "", " "])
def test_any_names_import_and_survive_a_graph_file(names: list[str], weights: list[str]) -> None:
    used = [name or f"w{index}" for index, name in enumerate(weights)][: len(names)]
    used = [name if name not in used[:index] else f"{name}{index}!" for index, name in enumerate(used)]
    graph = graph_of(chain(names, [f"{name}w" for name in used]))
    again = document.loads(document.dumps(graph))
    assert operators(again) == operators(graph)
    assert {node.name for node in again.nodes} == {node.name for node in graph.nodes}
    (result,) = again.compile("reference").run({"in put": X}).values()
    np.testing.assert_array_equal(result, X + sum(range(1, len(names) + 1)))


def test_weights_in_a_safetensors_file_have_the_models_names(tmp_path: pathlib.Path) -> None:
    weights = ["encoder.layer.0.weight", "onnx::MatMul_12", "model/dense/Read:0"]
    model = chain(["/a", "/b", "/c"], weights)
    for index, each in enumerate(model.graph.initializer):
        each.CopyFrom(onnx.numpy_helper.from_array(np.arange(400, dtype=np.float32).reshape(100, 4) + index, each.name))
    model.graph.output[0].type.tensor_type.shape.dim.insert(0, onnx.TensorShapeProto.Dimension(dim_value=100))
    onnx.save_model(model, tmp_path / "model.onnx")
    document.save(dg.load(tmp_path / "model.onnx"), tmp_path / "model.yaml", weights="weights.safetensors")
    data = (tmp_path / "weights.safetensors").read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    assert header.keys() - {"__metadata__"} == set(weights)


def test_equal_blocks_of_a_large_model_are_drawn_once() -> None:
    names = [f"/tower/block.{index // 20}/add_{index}" for index in range(400)]
    graph = graph_of(chain(names))
    page = picture.render(graph, "html")
    assert "×20,each:" in page.replace(" ", "")
    assert "block.19" in page
