"""Nodes that break the schemas of their operators, and mistakes in rules."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from node_cases import cases

import dmlgraph as dg
from dmlgraph.onnx import checking, definitions, table
from dmlgraph.onnx.importer import Importer
from dmlgraph.onnx.model import parse, prepare
from dmlgraph.onnx.node import Node, Result
from dmlgraph.onnx.refusals import Refusal

T = onnx.TensorProto
SHAPES = {"x": (T.FLOAT, [1, 2, 4, 4]), "h": (T.FLOAT16, [1, 2, 4, 4]), "i": (T.INT64, [4]), "s": (T.STRING, [2])}


_ANYTHING = checking.Formal("any", "any", None, is_optional=True, is_same=False)


def model_of(node: onnx.NodeProto, opset: int = 21) -> onnx.ModelProto:
    """A model of one node, whose inputs are those of SHAPES; `i` and `s` are known."""
    infos = [onnx.helper.make_tensor_value_info(name, *SHAPES[name]) for name in "xh"]
    known = [
        onnx.helper.make_tensor("i", T.INT64, [4], [1, 2, 4, 4]),
        onnx.helper.make_tensor("s", T.STRING, [2], [b"a", b"b"]),
    ]
    results = [onnx.helper.make_empty_tensor_value_info(name) for name in node.output if name]
    graph = onnx.helper.make_graph([node], "g", infos, results, known)
    imports = [onnx.helper.make_opsetid("", opset), onnx.helper.make_opsetid("com.microsoft", 1)]
    return onnx.helper.make_model(graph, opset_imports=imports)


def graph_of(model: onnx.ModelProto) -> dg.Graph:
    prepared = prepare(ir.from_proto(model))
    return Importer(prepared, dims={}, values={}, target=None, convert=None).read()


def read_bytes(data: bytes) -> dg.Graph:
    return Importer(parse(data, None), dims={}, values={}, target=None, convert=None).read()


def make(operator: str, inputs: str, outputs: int = 1, **attributes: Any) -> onnx.NodeProto:
    names = [name.replace("-", "") for name in inputs.split()]
    return onnx.helper.make_node(operator, names, [f"y{index}" for index in range(outputs)], name="n", **attributes)


@pytest.mark.parametrize(
    ("node", "code", "field", "allowed"),
    [
        (make("Relu", ""), "count", None, "1"),
        (make("Relu", "x x"), "count", None, "1"),
        (make("Conv", "x"), "count", None, "at least 2"),
        (make("Conv", "x x x x"), "count", None, "at most 3"),
        (make("Relu", "x", outputs=2), "count", None, "1"),
        (make("Concat", "", axis=0), "count", None, "at least 1"),
        (make("Add", "- x"), "missing", "A", None),
        (make("Concat", "x x"), "missing", "axis", None),
        (make("Flatten", "x", axis=1.5), "kind", "axis", "int"),
        (make("Flatten", "x", axis=[1]), "kind", "axis", "int"),
        (make("LeakyRelu", "x", alpha=1), "kind", "alpha", "float"),
        (make("Conv", "x x", auto_pad=b"\xff\xfe"), "kind", "auto_pad", None),
        (make("Transpose", "x", perms=[0, 1, 2, 3]), "unknown-field", "perms", "perm"),
        (make("Add", "x h"), "dtype", "B", "float32, as input A"),
        (make("Add", "x s"), "dtype", "B", None),
        (make("Concat", "x h x", axis=0), "dtype", "inputs 1", "float32, as input inputs"),
        (make("Reshape", "x h"), "dtype", "shape", "int64"),
        (make("BitwiseNot", "x"), "dtype", "X", None),
    ],
    ids=lambda each: each.op_type if isinstance(each, onnx.NodeProto) else "",
)
def test_a_node_that_breaks_its_schema_is_refused(
    node: onnx.NodeProto, code: str, field: str | None, allowed: str | None
) -> None:
    with pytest.raises(dg.ModelError) as caught:
        graph_of(model_of(node))
    (problem,) = caught.value.problems
    assert (problem.node, problem.code) == ("n", code)
    if field is not None:
        assert problem.field == field
    if allowed is not None:
        assert str(problem.allowed) == allowed
    assert problem.message.startswith(f"{node.op_type}, opset 21: ")


def test_every_case_of_onnx_fits_its_schema() -> None:
    """The signatures read from the schemas take all nodes of ONNX's own cases."""
    count = 0
    for case in cases():
        opsets = {each.domain: each.version for each in case.model.opset_import}
        for node in case.model.graph.node:
            found = checking.signature(node.domain, node.op_type, opsets.get(node.domain, 1))
            if found is None:
                continue
            attributes = {each.name: ir.serde.deserialize_attribute(each) for each in node.attribute}
            without = dataclasses.replace(found, inputs=(_ANYTHING,))
            (least, most), _ = found.counts
            assert least <= len(node.input) <= most
            checking.check(without, [None] * len(node.input), len(node.output), attributes)
            count += 1
    assert count > 1000


def test_the_name_of_an_operator_that_is_not_text_is_refused() -> None:
    data = model_of(make("Relu", "x")).SerializeToString().replace(b"Relu", b"Rel\xff")
    with pytest.raises(dg.ModelError, match="not UTF-8 text"):
        read_bytes(data)


def test_the_name_of_an_input_that_is_not_text_is_shown() -> None:
    model = model_of(make("Relu", "x"))
    model.graph.input[0].CopyFrom(onnx.helper.make_tensor_value_info("xQQx", T.FLOAT, ["N", 2]))
    model.graph.node[0].input[0] = "xQQx"
    data = model.SerializeToString().replace(b"xQQx", b"x\xff\xfex")
    with pytest.raises(dg.ModelError, match="x\ufffd\ufffdx"):
        read_bytes(data)


def test_a_definition_that_onnx_cannot_make_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> bytes:
        raise RuntimeError("Error parsing node")

    class Schema:
        has_function, has_context_dependent_function = False, True
        function_opset_versions: list[int] = []  # noqa: RUF012 - as in onnx
        context_dependent_function_opset_versions = (1,)
        get_context_dependent_function_with_opset_version = staticmethod(broken)

    monkeypatch.setattr(definitions, "schema", lambda *_: Schema)
    with pytest.raises(Refusal, match="no definition of it for these inputs"):
        definitions.definition("", "Relu", 21, make("Relu", "x"))


def test_an_attribute_of_an_operator_without_a_schema_may_have_any_type() -> None:
    node = make("FusedMatMul", "x x", alpha=[1.0], transA="no")
    node.domain = "com.microsoft"
    with pytest.raises(dg.ModelError):
        graph_of(model_of(node))


@pytest.mark.parametrize("error", [AttributeError, TypeError, AssertionError, RuntimeError])
def test_a_mistake_in_a_rule_is_no_damage(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(_: Node) -> Result:
        raise error("a mistake")

    row = table.Row("", "Relu", 7, None, "activation_relu", "activations", wrong)
    monkeypatch.setitem(table.rows(), ("", "Relu"), [row])
    with pytest.raises(error, match="a mistake"):
        graph_of(model_of(make("Relu", "x")))


@pytest.mark.parametrize("error", [IndexError, ValueError, OverflowError])
def test_numbers_that_do_not_fit_are_damage(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(_: Node) -> Result:
        raise error("no such axis")

    row = table.Row("", "Relu", 7, None, "activation_relu", "activations", wrong)
    monkeypatch.setitem(table.rows(), ("", "Relu"), [row])
    with pytest.raises(dg.ModelError, match="does not fit its inputs or attributes: no such axis") as caught:
        graph_of(model_of(make("Relu", "x")))
    assert (caught.value.code, caught.value.node) == ("model", "n")


def test_a_wrong_node_does_not_hide_the_others(tmp_path: pathlib.Path) -> None:
    nodes = [make("Relu", "x x"), make("Flatten", "x", axis=1.5), make("Neg", "y0")]
    for index, node in enumerate(nodes):
        node.name, node.output[0] = f"n{index}", f"y{index}"
    model = model_of(nodes[0])
    model.graph.node.extend(nodes[1:])
    model.graph.output.extend(onnx.helper.make_empty_tensor_value_info(f"y{index}") for index in (1, 2))
    onnx.save_model(model, tmp_path / "model.onnx")
    with pytest.raises(dg.ModelError) as caught:
        dg.load(tmp_path / "model.onnx")
    assert [each.node for each in caught.value.problems] == ["n0", "n1"]
    assert np.all([each.location is not None for each in caught.value.problems])
