"""Lowering: the text of a graph, its edges, and where constants and outputs go."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.compiler.desc import ConstantDescNode, InputEdge, IntermediateEdge, OperatorDescNode, OutputEdge
from dmlgraph.compiler.lowering import CONSTANT_NODE_BYTES, lower

RAMP = """\
graph ramp
level 5.0
input 0 x: float32 [2,3], 24 bytes
output 0 y: float32 [2,3], 24 bytes
node 0 ramp: FILL_VALUE_SEQUENCE
    OutputTensor = float32 [2,3], 24 bytes
    ValueDataType = float32
    ValueStart = 3.0
    ValueDelta = 2.0
node 1 multiply: ELEMENT_WISE_MULTIPLY
    ATensor = float32 [2,3], 24 bytes
    BTensor = float32 [2,3], 24 bytes
    OutputTensor = float32 [2,3], 24 bytes
node 2 fill_value_constant: FILL_VALUE_CONSTANT
    OutputTensor = float32 [1,1], 4 bytes
    ValueDataType = float32
    Value = -0.0
node 3 add: ELEMENT_WISE_ADD
    ATensor = float32 [2,3], 24 bytes
    BTensor = float32 [2,3] strides [0,0], 4 bytes
    OutputTensor = float32 [2,3], 24 bytes
node 4 clip: ELEMENT_WISE_CLIP
    InputTensor = float32 [2,3], 24 bytes
    OutputTensor = float32 [2,3], 24 bytes
    ScaleBias = scale 0.1 bias 1.0
    Min = -inf
    Max = 0.1
edge input 0 x -> node 1 multiply:0
edge node 0 ramp:0 -> node 1 multiply:1
edge node 1 multiply:0 -> node 3 add:0
edge node 2 fill_value_constant:0 -> node 3 add:1
edge node 3 add:0 -> node 4 clip:0
edge node 4 clip:0 -> output 0 y
"""


def ramp() -> dg.Graph:
    g = dg.Graph("ramp", target="5.0")
    x = g.input("x", sizes=[2, 3], dtype="float32")
    fill = g.fill_value_sequence(sizes=[2, 3], dtype="float32", value_start=3, value_delta=2, name="ramp")
    shifted = x * fill + -0.0
    g.output("y", dg.clip(shifted, min=-np.inf, max=0.1, scale_bias=dg.ScaleBias(scale=0.1, bias=1)))
    return g


def constant_graph(elements: int, target: str | None = None) -> dg.Graph:
    g = dg.Graph(target=target)
    c = g.constant("c", np.arange(elements, dtype=np.float32))
    x = g.input("x", sizes=[elements], dtype="float32")
    g.output("y", dg.add(x, c, name="sum"))
    return g


# The text.


def test_a_graph_lowers_to_this_text() -> None:
    assert str(ramp().lower(fuse=False)) == RAMP


def test_matrices_activations_and_lists_lower_to_this_text() -> None:
    g = dg.Graph("product")
    a = g.input("a", sizes=[3, 2], dtype="float16", owned=True)
    parts = dg.split(g.input("b", sizes=[3, 5], dtype="float16"), axis=1, outputs=[1, 4])
    g.output("y", dg.gemm(a, parts[1], trans_a="transpose", alpha=0.5, fused_activation="activation_relu"))
    assert (
        str(g.lower(fuse=False))
        == """\
graph product
level 6.4
input 0 a: float16 [3,2] owned, 12 bytes
input 1 b: float16 [3,5], 32 bytes
output 0 y: float16 [2,4], 16 bytes
node 0 split: SPLIT
    InputTensor = float16 [3,5], 32 bytes
    OutputCount = 2
    OutputTensors = [float16 [3,1], 8 bytes, float16 [3,4], 24 bytes]
    Axis = 1
node 1 gemm: GEMM
    ATensor = float16 [3,2] owned, 12 bytes
    BTensor = float16 [3,4], 24 bytes
    CTensor = null
    OutputTensor = float16 [2,4], 16 bytes
    TransA = transpose
    TransB = none
    Alpha = 0.5
    Beta = 1.0
    FusedActivation = ACTIVATION_RELU
edge input 1 b -> node 0 split:0
edge input 0 a -> node 1 gemm:0
edge node 0 split:1 -> node 1 gemm:1
edge node 1 gemm:0 -> output 0 y
"""
    )


def test_edges_carry_the_ports() -> None:
    g = dg.Graph()
    x = g.input("x", sizes=[4], dtype="float32")
    first, second = dg.split(x, axis=0, outputs=[2, 2])
    g.output("a", second - first)
    g.output("b", second)
    desc = g.lower(fuse=False)
    assert desc.input_edges == (InputEdge(0, 0, 0),)
    assert desc.intermediate_edges == (IntermediateEdge(0, 1, 1, 0), IntermediateEdge(0, 0, 1, 1))
    assert desc.output_edges == (OutputEdge(1, 0, 0), OutputEdge(0, 1, 1))


def test_an_absent_optional_tensor_leaves_its_port_free() -> None:
    g = dg.Graph()
    a = g.input("a", sizes=[2, 2], dtype="float32")
    c = g.input("c", sizes=[2, 2], dtype="float32")
    g.output("with_c", dg.gemm(a, a, c))
    g.output("without", dg.gemm(a, a))
    ports = [(edge.input, edge.to_node, edge.to_port) for edge in g.lower(fuse=False).input_edges]
    assert ports == [(0, 0, 0), (0, 0, 1), (1, 0, 2), (0, 1, 0), (0, 1, 1)]


def test_every_edge_joins_descriptions_of_one_buffer() -> None:
    desc = ramp().lower(fuse=False)
    for edge in desc.intermediate_edges:
        source, target = desc.nodes[edge.from_node], desc.nodes[edge.to_node]
        assert isinstance(source, OperatorDescNode)
        assert isinstance(target, OperatorDescNode)
        written, read = source.operator.output_descs[edge.from_port], target.operator.input_descs[edge.to_port]
        assert written is not None
        assert read is not None
        assert (written.dtype, written.total_bytes) == (read.dtype, read.total_bytes)
        assert edge.from_node < edge.to_node


# Equality.


def test_equal_graphs_lower_to_equal_descriptions() -> None:
    assert ramp().lower(fuse=False) == ramp().lower(fuse=False)
    assert hash(ramp().lower(fuse=False)) == hash(ramp().lower(fuse=False))
    assert len({ramp().lower(fuse=False), ramp().lower(fuse=False), constant_graph(2).lower(fuse=False)}) == 2
    assert ramp().lower(fuse=False) != RAMP


def test_constants_count_for_equality() -> None:
    for elements in (2, 100):
        one, other = constant_graph(elements), dg.Graph()
        c = other.constant("c", np.arange(elements, dtype=np.float32) + 1)
        other.output("y", dg.add(other.input("x", sizes=[elements], dtype="float32"), c, name="sum"))
        assert one.lower(fuse=False) == constant_graph(elements).lower(fuse=False)
        assert one.lower(fuse=False) != other.lower(fuse=False)


def test_a_description_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        ramp().lower(fuse=False).name = "other"  # type: ignore[misc]


# Constants.


def test_a_small_constant_is_a_constant_node_from_6_2() -> None:
    desc = constant_graph(CONSTANT_NODE_BYTES // 4, "6.2").lower(fuse=False)
    node = desc.nodes[0]
    assert isinstance(node, ConstantDescNode)
    assert node.data == np.arange(16, dtype=np.float32).tobytes()
    assert [slot.name for slot in desc.inputs] == ["x"]
    assert "node 0 c: CONSTANT float32 [16], 64 bytes sha256 " in str(desc)


@pytest.mark.parametrize(("elements", "target"), [(16, "6.1"), (17, "6.2"), (1, "3.0")])
def test_any_other_constant_is_an_input_owned_by_directml(elements: int, target: str) -> None:
    desc = constant_graph(elements, target).lower(fuse=False)
    assert [type(node) for node in desc.nodes] == [OperatorDescNode]
    owned = desc.inputs[0]
    assert (owned.name, owned.desc.owned) == ("c", True)
    np.testing.assert_array_equal(owned.data, np.arange(elements, dtype=np.float32))
    add = desc.nodes[0]
    assert isinstance(add, OperatorDescNode)
    assert [tensor and tensor.owned for tensor in add.operator.input_descs] == [False, True]
    assert f"input 0 c: float32 [{elements}] owned, {elements * 4} bytes sha256 " in str(desc)
    assert f"    BTensor = float32 [{elements}] owned, {elements * 4} bytes" in str(desc)


def test_a_broadcast_owned_constant_keeps_its_strides() -> None:
    g = dg.Graph(target="5.0")
    g.output("y", g.input("x", sizes=[2, 3], dtype="float32") + g.constant("c", np.ones((2, 1), np.float32)))
    assert "    BTensor = float32 [2,3] strides [1,0] owned, 8 bytes" in str(g.lower(fuse=False))


def test_the_level_of_a_device_can_lower_that_of_the_graph_but_not_raise_it() -> None:
    assert lower(constant_graph(2), dg.FeatureLevel.V6_1).inputs[0].desc.owned
    assert str(lower(constant_graph(2), dg.FeatureLevel.V6_1).level) == "6.1"
    assert str(lower(constant_graph(2, "6.1"), dg.FeatureLevel.V6_4).level) == "6.1"


# Outputs.


def test_an_output_that_is_an_input_goes_through_an_identity() -> None:
    g = dg.Graph()
    x = g.input("x", sizes=[2, 2], strides=[1, 2], dtype="float32")
    g.output("y", x)
    g.output("z", x)
    desc = g.lower(fuse=False)
    assert [node.name for node in desc.nodes] == ["y_identity", "z_identity"]
    identity = desc.nodes[0]
    assert isinstance(identity, OperatorDescNode)
    assert identity.operator.input_descs == (x.desc,)
    assert desc.outputs[0].desc == dg.TensorDesc(dtype="float32", sizes=[2, 2])
    assert desc.input_edges == (InputEdge(0, 0, 0), InputEdge(0, 1, 0))
    assert desc.output_edges == (OutputEdge(0, 0, 0), OutputEdge(1, 0, 1))
    data = np.arange(4, dtype=np.float32).reshape(2, 2)
    np.testing.assert_array_equal(g.compile("reference").run({"x": data})["z"], data)


@pytest.mark.parametrize(("elements", "target"), [(2, "6.4"), (100, "6.4"), (2, "5.0")])
def test_an_output_that_is_a_constant_goes_through_an_identity(elements: int, target: str) -> None:
    g = dg.Graph(target=target)
    g.output("y", g.constant("c", np.arange(elements, dtype=np.float32)))
    desc = g.lower(fuse=False)
    assert desc.nodes[-1].name == "y_identity"
    assert not desc.outputs[0].desc.owned
    np.testing.assert_array_equal(g.compile("reference").run()["y"], np.arange(elements))


def test_the_identity_takes_a_free_name() -> None:
    g = dg.Graph()
    x = g.input("x", sizes=[2], dtype="float32")
    g.output("unused", dg.exp(x, name="y_identity"))
    g.output("y", x)
    assert [node.name for node in g.lower(fuse=False).nodes] == ["y_identity", "y_identity_1"]


@pytest.mark.parametrize(
    ("dtype", "target", "words"),
    [
        ("float64", "2.0", "float32 [1,1,1,12], 48 bytes"),
        ("float64", "4.0", "uint32 [1,1,1,12], 48 bytes"),
        ("float64", "4.1", "float64 [2,3], 48 bytes"),
        ("int4", "6.4", "uint32 [1,1,1,1], 4 bytes"),
    ],
)
def test_what_has_no_identity_is_copied_as_words(dtype: DataTypeName, target: str, words: str) -> None:
    g = dg.Graph(target=target)
    g.output("y", g.input("x", sizes=[2, 3], dtype=dtype))
    lines = str(g.lower(fuse=False)).splitlines()
    assert f"    InputTensor = {words}" in lines
    assert f"    OutputTensor = {words}" in lines
    assert any(line.startswith(f"output 0 y: {dtype} [2,3]") for line in lines)


def test_one_value_can_be_two_outputs() -> None:
    g = dg.Graph()
    y = dg.exp(g.input("x", sizes=[2], dtype="float32"))
    g.output("a", y)
    g.output("b", y)
    desc = g.lower(fuse=False)
    assert desc.output_edges == (OutputEdge(0, 0, 0), OutputEdge(0, 0, 1))
    results = g.compile("reference").run({"x": np.zeros(2, np.float32)})
    assert results["a"].tolist() == results["b"].tolist() == [1, 1]
    assert not np.shares_memory(results["a"], results["b"])


def test_dead_nodes_are_left_out_and_unused_inputs_stay() -> None:
    g = dg.Graph()
    x = g.input("x", sizes=[2], dtype="float32")
    g.input("unused", sizes=[3], dtype="int8")
    g.constant("dead", np.ones(100, np.float32))
    dg.exp(dg.log(x))
    g.output("y", dg.sqrt(x))
    desc = g.lower(fuse=False)
    assert [slot.name for slot in desc.inputs] == ["x", "unused"]
    assert [node.name for node in desc.nodes] == ["sqrt"]


def test_a_graph_without_outputs_is_refused() -> None:
    g = dg.Graph("empty")
    g.input("x", sizes=[1], dtype="int8")
    for call in (lambda: g.lower(fuse=False), lambda: g.compile("reference")):
        with pytest.raises(dg.GraphError) as caught:
            call()
        assert caught.value.code == "no-outputs"
