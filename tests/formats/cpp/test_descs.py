"""Operators as C++."""

from __future__ import annotations

import dmlgraph as dg
from dmlgraph.base.tensor import TensorDesc
from dmlgraph.formats.cpp.descs import _FORMS, Nodes, Tensors
from dmlgraph.formats.cpp.lowered import lowered
from dmlgraph.operators.declaration.fields import Kind


def nodes_of(graph: dg.Graph, *, fuse: bool = False) -> Nodes:
    found = lowered(graph, fuse=fuse, level=None)
    return Nodes(found.desc, found.origins)


def test_every_kind_of_field_has_a_form() -> None:
    assert set(_FORMS) == set(Kind) - {Kind.INDEX}  # only views have indices


def test_a_tensor_is_named_after_what_it_is() -> None:
    tensors = Tensors()
    plain = TensorDesc(dtype="float32", sizes=[2, 3])
    assert tensors.name(plain) == "float32_2x3"
    assert tensors.name(plain, 64) == "float32_2x3_in_64"
    assert tensors.name(plain.like(strides=[1, 2])) == "float32_2x3_strides_1x2"
    assert tensors.name(plain.like(owned=True)) == "float32_2x3_owned"
    assert str(tensors).count("constexpr DML_TENSOR_DESC ") == 4
    assert tensors.name(plain) == "float32_2x3"
    assert str(tensors).count("constexpr DML_TENSOR_DESC ") == 4


def test_a_node_has_a_struct_whose_members_are_named() -> None:
    g = dg.Graph("g")
    x = g.input("x", sizes=[1, 2], dtype="float32")
    g.output("y", dg.gemm(x, x, trans_b="transpose", fused_activation={"op": "activation_elu", "alpha": 0.5}, name="y"))
    found = nodes_of(g)
    assert found.texts == [
        "// 0: y\n"
        "constexpr DML_ACTIVATION_ELU_OPERATOR_DESC n0_FusedActivation_desc = {\n"
        "    nullptr,  // InputTensor\n"
        "    nullptr,  // OutputTensor\n"
        "    0.5f,  // Alpha\n"
        "};\n"
        "constexpr DML_OPERATOR_DESC n0_FusedActivation = "
        "{DML_OPERATOR_ACTIVATION_ELU, &n0_FusedActivation_desc};\n"
        "constexpr DML_GEMM_OPERATOR_DESC n0 = {\n"
        "    &float32_1x2,  // ATensor\n"
        "    &float32_1x2,  // BTensor\n"
        "    nullptr,  // CTensor\n"
        "    &float32_1x1,  // OutputTensor\n"
        "    DML_MATRIX_TRANSFORM_NONE,  // TransA\n"
        "    DML_MATRIX_TRANSFORM_TRANSPOSE,  // TransB\n"
        "    1.0f,  // Alpha\n"
        "    1.0f,  // Beta\n"
        "    &n0_FusedActivation,  // FusedActivation\n"
        "};\n"
    ]
    assert found.table == ['    {DML_OPERATOR_GEMM, &n0, sizeof n0, "y"},']


def test_a_small_constant_is_a_node_with_its_bytes() -> None:
    g = dg.Graph("g")
    x = g.input("x", sizes=[2], dtype="uint8")
    g.output("y", dg.add(x, g.constant("c", [1, 255], dtype="uint8"), name="y"))
    found = nodes_of(g)
    assert found.texts[0] == "// 0: c\n// uint8 [2]\nconstexpr BYTE n0[] = {0x01, 0xff, 0x00, 0x00};\n"
    assert found.table[0] == '    {DML_OPERATOR_INVALID, n0, sizeof n0, "c"},'


def test_a_fused_node_says_what_it_was_made_of() -> None:
    g = dg.Graph("g")
    x = g.input("x", sizes=[4, 4], dtype="float32")
    g.output("y", dg.activation_relu(dg.gemm(x, x, name="product"), name="y"))
    titles = [text.splitlines()[0] for text in nodes_of(g, fuse=True).texts]
    assert titles == ["// 0: y, made of product"]
