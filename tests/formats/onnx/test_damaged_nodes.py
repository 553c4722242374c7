"""Nodes that break the schemas of their operators, and mistakes in rules."""

from __future__ import annotations

import dataclasses
import pathlib
import types
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from support.onnx.node_cases import cases
from support.problems import raises

import dmlgraph as dg
from dmlgraph.formats.onnx import checking, definitions, table
from dmlgraph.formats.onnx.importer import Importer
from dmlgraph.formats.onnx.model import parse, prepare
from dmlgraph.formats.onnx.node import Node, Result
from dmlgraph.formats.onnx.refusals import Refusal

T = onnx.TensorProto
SHAPES = {"x": (T.FLOAT, [1, 2, 4, 4]), "h": (T.FLOAT16, [1, 2, 4, 4]), "i": (T.INT64, [4]), "s": (T.STRING, [2])}


_ANYTHING = checking.Formal("any", "any", None, is_optional=True, is_same=False)


def model_of(node: onnx.NodeProto, opset: int = 21) -> onnx.ModelProto:
    """A model of one node, whose inputs are those of SHAPES; `i` and `s` are known."""
    infos = [onnx.helper.make_tensor_value_info(name, *SHAPES[name]) for name in "xh"]
    known = [
        onnx.helper.make_tensor("i", T.INT64, [4], [1, 2, 4, 4]),
        onnx.numpy_helper.from_array(np.array([b"a", b"b"], object), "s"),
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
        (make("Gemm", "x x"), "rank", "A", "rank 2"),
        (make("Conv", "x x x"), "rank", "B", "rank 1"),
        (make("GatherElements", "x i"), "rank", "indices", "rank 4"),
        (make("Einsum", "x", equation="......ii"), "range", "equation", None),
        (make("Einsum", "x", equation="iijk"), "sizes", "equation", None),
        (make("Einsum", "x", equation="ij$k->ij"), "range", "equation", None),
        (make("Resize", "x - h"), "dtype", "scales", "float32"),
        (make("Slice", "x i i i"), "range", "axis", "-4 to 3"),
        (make("Cast", "x", to=99), "range", "to", None),
        (make("Split", "x", outputs=2, num_outputs=3), "count", "num_outputs", "2"),
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
            given: Any = types.SimpleNamespace(
                inputs=[None] * len(node.input), outputs=[True] * len(node.output), attributes=attributes
            )
            checking.check(without, given)
            count += 1
    assert count > 1000


def test_the_name_of_an_operator_that_is_not_text_is_refused() -> None:
    data = model_of(make("Relu", "x")).SerializeToString().replace(b"Relu", b"Rel\xff")
    with raises(dg.ModelError, "model", node="n"):
        read_bytes(data)


def test_the_name_of_an_input_that_is_not_text_is_shown() -> None:
    model = model_of(make("Relu", "x"))
    model.graph.input[0].CopyFrom(onnx.helper.make_tensor_value_info("xQQx", T.FLOAT, ["N", 2]))
    model.graph.node[0].input[0] = "xQQx"
    data = model.SerializeToString().replace(b"xQQx", b"x\xff\xfex")
    with raises(dg.ModelError, "undetermined", node="x\ufffd\ufffdx", got="N"):
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


@pytest.mark.parametrize(
    "error", [AttributeError, TypeError, AssertionError, RuntimeError, IndexError, ValueError, OverflowError]
)
def test_a_mistake_in_a_rule_is_no_damage(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(_: Node) -> Result:
        raise error("a mistake")

    row = table.Row("", "Relu", 7, None, "activation_relu", wrong)
    monkeypatch.setitem(table.rows(), ("", "Relu"), [row])
    with pytest.raises(error, match="a mistake"):
        graph_of(model_of(make("Relu", "x")))


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


@pytest.mark.parametrize(
    ("operator", "inputs", "code", "field"),
    [
        ("RotaryEmbedding", {"input": [1, 2, 1, 8], "position_ids": [2], "cos_cache": [9, 4], "sin_cache": [9, 4]},
         "sizes", "position_ids"),
        ("RotaryEmbedding", {"input": [1, 2, 1, 8], "position_ids": [1], "cos_cache": [4], "sin_cache": [9, 4]},
         "rank", "cos_cache"),
        ("GroupQueryAttention", {"query": [3, 1, 32], "key": [1, 32], "value": [3, 1, 32]}, "rank", "key"),
        ("Attention", {"input": [3, 4, 5], "weights": [1]}, "rank", "weights"),
        ("FusedGemm", {"A": [3, 4], "B": []}, "rank", "B"),
    ],
)  # fmt: skip
def test_the_inputs_of_microsofts_operators_are_checked(
    operator: str, inputs: dict[str, list[int]], code: str, field: str
) -> None:
    whole = ("position_ids", "seqlens_k", "total_sequence_length")
    given = {**inputs, **({name: [1] for name in whole[1:]} if operator.startswith("Group") else {})}
    known = checking.signature("com.microsoft", operator, 1)
    assert known is not None
    names = [each.name if each.name in given else "" for each in known.inputs][: len(known.inputs)]
    while not names[-1]:
        names.pop()
    types = {"position_ids": T.INT64, "seqlens_k": T.INT32, "total_sequence_length": T.INT32}
    infos = [onnx.helper.make_tensor_value_info(name, types.get(name, T.FLOAT), given[name]) for name in names if name]
    heads = {"num_heads": 2, "kv_num_heads": 2} if "Attention" in operator else {}
    attributes: dict[str, Any] = {name: value for name, value in heads.items() if name in known.attributes}
    outputs = [f"y{index}" for index in range(known.counts[1][0])]
    node = onnx.helper.make_node(operator, names, outputs, name="n", domain="com.microsoft", **attributes)
    results = [onnx.helper.make_empty_tensor_value_info(name) for name in outputs]
    model = model_of(make("Relu", "x"))
    model.graph.CopyFrom(onnx.helper.make_graph([node], "g", infos, results))
    with pytest.raises(dg.ModelError) as caught:
        graph_of(model)
    (problem,) = caught.value.problems
    assert (problem.node, problem.code, problem.field) == ("n", code, field)


def test_the_attributes_of_microsofts_operators_are_checked() -> None:
    node = make("FusedMatMul", "x x", alpha=[1.0])
    node.domain = "com.microsoft"
    with raises(dg.ModelError, "kind", node="n", field="alpha", got="floats"):
        graph_of(model_of(node))


def test_the_ranks_are_of_inputs_that_exist() -> None:
    """In the newest form of the operator or in an earlier one."""
    own: dict[str, set[str]] = {}
    for each in onnx.defs.get_all_schemas_with_history():
        if each.domain == "":
            own.setdefault(each.name, set()).update(formal.name for formal in each.inputs)
    for name in checking.SHAPES:
        domain, _, operator = name.rpartition(".")
        known = checking.signature(domain, operator, 1) if domain else None
        names = own[operator] if known is None else {each.name for each in known.inputs}
        assert checking.shapes(domain, operator).keys() <= names, name


def test_every_rank_in_onnx_s_cases_is_allowed() -> None:
    """The cases of ONNX's operators are right, whatever our table says."""
    count = 0
    for case in cases():
        shapes = {
            each.name: len(each.type.tensor_type.shape.dim)
            for each in case.model.graph.input
            if each.type.HasField("tensor_type")
        }
        opset = next((each.version for each in case.model.opset_import if not each.domain), 1)
        for node in case.model.graph.node:
            found = checking.signature(node.domain, node.op_type, opset)
            if found is None or len(case.model.graph.node) > 1:
                continue
            for formal, name in zip(found.inputs, node.input, strict=False):
                if name in shapes:
                    least, most, _ = formal.shape
                    assert least <= shapes[name] <= most, (case.name, formal.name)
                    count += 1
    assert count > 1000
