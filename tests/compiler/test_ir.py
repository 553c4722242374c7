"""The IR: searching and rewriting a graph, and its names, origins and dead nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.passes.fusing import assert_same_bits, fused, operators

import dmlgraph as dg
from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.tensor import TensorDesc
from dmlgraph.compiler.ir import IrGraph, broadcast_strides
from dmlgraph.compiler.ir_node import Operand, Source
from dmlgraph.compiler.rewriting import apply
from dmlgraph.compiler.rule import Constant, Declined, New, Rewrite
from dmlgraph.compiler.verify import verify
from dmlgraph.devices.directml.target import target
from dmlgraph.graph.constant_data import ConstantData
from dmlgraph.graph.nodes import ConstantNode
from dmlgraph.operators.element_wise import Abs, Clip, Identity, Sqrt
from dmlgraph.passes import fuse


def ir_of(build: object, sizes: list[int] | None = None, level: FeatureLevel = FeatureLevel.V6_4) -> IrGraph:
    g = dg.Graph()
    g.output("y", build(g, g.input("x", sizes=sizes or [2, 3], dtype="float32")))  # type: ignore[operator]
    return IrGraph.of(g, target(level))


def operand(ir: IrGraph, node: str, field: str = "input") -> Operand:
    found = ir[node].operand(field)
    assert found is not None
    return found


class TestLooking:
    def test_dead_nodes_are_left_out_and_inputs_are_not(self):
        g = dg.Graph()
        x, other = (g.input(name, sizes=[2], dtype="float32") for name in ("x", "other"))
        dg.exp(other)
        g.output("y", dg.abs(x))
        assert [node.name for node in IrGraph.of(g)] == ["x", "other", "abs"]

    def test_users_and_counts(self):
        ir = ir_of(lambda _, x: dg.exp(x) + dg.exp(x))
        assert [(node.name, port) for node, port in ir.users(Source("x", 0))] == [("exp", 0), ("exp_1", 0)]
        assert ir.use_count(Source("add", 0)) == 1
        assert ir.is_output(Source("add", 0))
        assert ir.only_use(operand(ir, "add", "a"))
        assert not ir.only_use(operand(ir, "exp"))

    def test_numbers(self):
        ir = ir_of(lambda g, x: x * 2.0 + g.constant("k", np.full((2, 3), 7, np.float32)) + g.constant("v", V))
        assert float(ir.number(operand(ir, "multiply", "b")).value) == 2.0  # type: ignore[union-attr]
        assert float(ir.number(operand(ir, "add", "b")).value) == 7.0  # type: ignore[union-attr]
        assert ir.number(operand(ir, "add_1", "b")) is None
        assert ir.number(operand(ir, "multiply", "a")) is None

    def test_the_number_of_another_constant_of_the_same_name(self):
        ir = ir_of(lambda g, x: x + g.constant("k", np.full((2, 3), 7, np.float32)))
        k = operand(ir, "add", "b")
        assert float(ir.number(k).value) == 7.0  # type: ignore[union-attr]
        ir.put("k", ConstantNode("k", k.desc, ConstantData(np.full((2, 3), 3, np.float32))))
        assert float(ir.number(k).value) == 3.0  # type: ignore[union-attr]

    def test_numbers_that_are_equal_but_not_the_same_are_none(self):
        zeros = np.array([0.0, -0.0], np.float32)
        ir = ir_of(lambda g, x: x + g.constant("k", zeros), [2])
        assert ir.number(operand(ir, "add", "b")) is None

    def test_values_are_as_they_are_read(self):
        ir = ir_of(lambda g, x: x + g.constant("k", np.array([1, 2, 3], np.float32)))
        np.testing.assert_array_equal(ir.values(operand(ir, "add", "b")), [[1, 2, 3], [1, 2, 3]])

    def test_around_broadcasts_as_the_reader_did(self):
        ir = ir_of(lambda g, x: x + dg.exp(g.input("row", sizes=[1, 3], dtype="float32", strides=[9, 2])))
        reading = operand(ir, "add", "b")
        seen = ir.around(reading, ir.produced(reading), operand(ir, "exp"))
        assert seen == Operand(Source("row", 0), TensorDesc(dtype="float32", sizes=(2, 3), strides=(0, 2)))


V = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize(
    ("reading", "written", "other", "expected"),
    [
        (((2, 3), None), ((2, 3), None), ((2, 3), (1, 2)), (1, 2)),
        (((2, 3), (0, 1)), ((1, 3), None), ((1, 3), (5, 4)), (0, 4)),
        (((2, 3), (0, 1)), ((3,), None), ((3,), (2,)), (0, 2)),
        (((3, 2), (1, 3)), ((2, 3), None), ((2, 3), None), None),  # a transposed reading
        (((2, 2), (3, 1)), ((2, 3), None), ((2, 3), None), None),  # a part of it
        (((2, 3), None), ((2, 3), None), ((3, 2), None), None),  # of other sizes
        (((3,), None), ((1, 3), None), ((1, 3), None), None),  # with fewer dimensions
    ],
)
def test_broadcast_strides(reading: Any, written: Any, other: Any, expected: tuple[int, ...] | None):
    descs = [TensorDesc(dtype="float32", sizes=sizes, strides=strides) for sizes, strides in (reading, written, other)]
    assert broadcast_strides(*descs) == expected


class TestRewriting:
    def test_the_outermost_node_keeps_the_name_and_others_get_free_ones(self):
        ir = ir_of(lambda _, x: dg.exp(dg.abs(x, name="exp_1"), name="exp"))
        rewrite = Rewrite.of(New(Sqrt, {"input": New(Identity, {"input": operand(ir, "exp")})}), "why")
        change = apply(ir, ir["exp"], rewrite)
        verify(ir)
        assert set(change.standing) == {"exp", "exp_2"}
        assert [node.name for node in ir.in_order()] == ["x", "exp_1", "exp_2", "exp"]

    def test_producers_that_nothing_reads_any_more_go(self):
        ir = ir_of(lambda _, x: dg.sqrt(dg.abs(dg.exp(x))))
        change = apply(ir, ir["sqrt"], Rewrite.of(New(Sqrt, {"input": operand(ir, "exp")}), "why"))
        verify(ir)
        assert change.gone == ("sqrt", "abs", "exp")
        assert {node.name for node in ir} == {"x", "sqrt"}

    def test_producers_that_are_read_elsewhere_stay(self):
        ir = ir_of(lambda _, x: sum_of_both(x))
        apply(ir, ir["sqrt"], Rewrite.of(New(Sqrt, {"input": operand(ir, "exp")}), "why"))
        verify(ir)
        assert {node.name for node in ir} == {"x", "exp", "sqrt", "add"}

    def test_outputs_follow(self):
        g = dg.Graph()
        x = g.input("x", sizes=[2], dtype="float32")
        y = dg.abs(dg.exp(x))
        for name in ("one", "two"):
            g.output(name, y)
        ir = IrGraph.of(g)
        apply(ir, ir["abs"], Rewrite.of(operand(ir, "abs"), "exp is never negative"))
        verify(ir)
        assert list(ir.outputs.items()) == [("one", Source("exp", 0)), ("two", Source("exp", 0))]

    def test_other_sizes_or_types_are_declined_and_nothing_changes(self):
        ir = ir_of(lambda _, x: dg.exp(x))
        for wrong in (Constant(np.zeros((3, 2), np.float32)), Constant(np.zeros((2, 3), np.float16))):
            with pytest.raises(Declined, match="in place of"):
                apply(ir, ir["exp"], Rewrite.of(wrong, "why"))
        verify(ir)
        assert {node.name for node in ir} == {"x", "exp"}

    def test_an_operator_of_a_later_level_is_declined(self):
        ir = ir_of(lambda _, x: dg.exp(x), [1, 1, 2, 3], FeatureLevel.V2_0)
        gelu = dg.operators.find("activation_gelu")
        assert gelu is not None
        with pytest.raises(Declined, match="does not exist at feature level"):
            apply(ir, ir["exp"], Rewrite.of(New(gelu, {"input": operand(ir, "exp")}), "why"))
        verify(ir)

    def test_a_wrong_attribute_is_declined(self):
        ir = ir_of(lambda _, x: dg.exp(x))
        with pytest.raises(Declined, match="clip would be wrong"):
            apply(ir, ir["exp"], Rewrite.of(New(Clip, {"input": operand(ir, "exp")}, {"min": "low"}), "why"))
        verify(ir)

    def test_an_output_that_is_read_and_not_replaced_is_declined(self):
        g = dg.Graph()
        x = g.input("x", sizes=[1, 1, 1, 4], dtype="float32")
        values, indices = dg.top_k(x, axis=3, k=4)
        g.output("values", values)
        g.output("indices", indices)
        ir = IrGraph.of(g)
        with pytest.raises(Declined, match="output 1 is also read"):
            apply(ir, ir["top_k"], Rewrite.of(New(Abs, {"input": operand(ir, "top_k")}), "why"))
        verify(ir)

    def test_readers_broadcast_what_takes_the_place(self):
        ir = ir_of(lambda g, x: x + dg.exp(g.input("row", sizes=[3], dtype="float32")))
        apply(ir, ir["exp"], Rewrite.of(New(Sqrt, {"input": operand(ir, "exp")}), "why"))
        verify(ir)
        assert operand(ir, "add", "b").desc.effective_strides == (0, 1)

    def test_a_constant_may_be_read_by_zero_strides(self):
        ir = ir_of(lambda _, x: dg.exp(x) + x)
        apply(ir, ir["exp"], Rewrite.of(Constant(np.ones(1, np.float32), (2, 3)), "why"))
        verify(ir)
        assert operand(ir, "add", "a").desc.effective_strides == (0, 0)
        assert {node.name for node in ir} == {"x", "exp", "add"}


def sum_of_both(x: dg.Value) -> dg.Value:
    """A value with two readers."""
    inner = dg.exp(x)
    return dg.sqrt(inner) + inner


class TestOrigins:
    def test_every_node_of_the_source_that_went_somewhere_is_there(self):
        g = dg.Graph()
        x = g.input("x", sizes=[2, 3], dtype="float32")
        g.output("y", dg.activation_relu(dg.add(dg.multiply(x, 2.0, name="twice"), 0.5, name="sum"), name="relu"))
        result = fuse(g, check=verify)
        (name,) = (node.name for node in result.graph.nodes if node.name != "x")
        assert name == "relu"
        assert {"twice", "sum", "relu"} <= set(result.origins["relu"])
        assert result.origins["x"] == ("x",)

    def test_what_was_shared_has_both(self):
        g = dg.Graph()
        x = g.input("x", sizes=[2], dtype="float32")
        g.output("y", dg.exp(x, name="one") + dg.exp(x, name="two"))
        assert set(fused(g, "share").origins["one"]) == {"one", "two"}


class TestTwins:
    def test_zeros_of_either_sign_are_no_twins(self):
        g = dg.Graph()
        x = g.input("x", sizes=[2], dtype="float32")
        for name, bias in (("plus", 0.0), ("minus", -0.0)):
            g.output(name, dg.identity(x, scale_bias=dg.ScaleBias(scale=2.0, bias=bias)))
        assert operators(fused(g, "share")) == ["identity", "identity"]
        assert_same_bits(g, {"x": np.array([-0.0, 0.0], np.float32)}, "share")

    def test_the_like_with_other_attributes_are_told_apart(self):
        g = dg.Graph()
        x = g.input("x", sizes=[2], dtype="float32")
        for index in range(6):
            g.output(f"y{index}", dg.clip(x, min=0, max=index % 3 + 1))
        assert operators(fused(g, "share")) == ["clip"] * 3

    def test_only_an_earlier_node_is_a_twin(self):
        ir = ir_of(lambda _, x: dg.exp(x) + dg.exp(x))
        assert ir.twin(ir["exp"]) is None
        assert ir.twin(ir["exp_1"]) is ir["exp"]


def test_multi_output_nodes_keep_what_is_read():
    g = dg.Graph()
    x = g.input("x", sizes=[1, 1, 1, 4], dtype="float32")
    first, second = dg.split(x, axis=3, outputs=[1, 3])
    g.output("first", dg.identity(first))
    g.output("second", dg.identity(dg.identity(second)))
    result = fuse(g, check=verify)
    assert operators(result) == ["split"]
    assert result.graph.outputs["second"].port == 1
    assert_same_bits(g, {"x": np.arange(4, dtype=np.float32).reshape(1, 1, 1, 4)})


@pytest.mark.parametrize("level", ["2.1", "3.0", "4.1", "5.0"])
def test_nothing_is_made_above_the_level(level: str):
    g = dg.Graph(target=level)
    x = g.input("x", sizes=[1, 1, 2, 3], dtype="float32")
    g.output("swish", x * dg.activation_sigmoid(x))
    g.output("gelu", x * 0.5 * (dg.erf(x * 0.5**0.5) + 1.0))
    g.output("zero", dg.multiply(x, 0.0) + 1.0)
    result = fuse(g, check=verify)
    assert not [problem for node in result.graph.nodes for problem in problems_of(node, g.level)]


def problems_of(node: object, level: FeatureLevel) -> list[object]:
    operator = getattr(node, "operator", None)
    return [] if operator is None else list(operator.level_problems(level))


def test_a_device_of_a_lower_level_counts():
    g = dg.Graph()
    x = g.input("x", sizes=[1, 1, 2, 3], dtype="float32")
    g.output("y", x * dg.activation_sigmoid(x))
    assert operators(fuse(g)) == ["activation_swish"]
    assert operators(fuse(g, level=FeatureLevel.V5_0)) == ["activation_sigmoid", "multiply"]
