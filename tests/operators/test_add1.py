"""ELEMENT_WISE_ADD1: activation(a + b)."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from support.nodes import operator_of
from support.operators.checks import BinaryTests
from support.operators.harness import FLOATS, INF, NAN, add_node, array, assert_same, case, each_dtype, refused, run
from support.problems import expect

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName
from dmlgraph.operators import REGISTRY
from dmlgraph.operators.declaration.fields import Kind


class TestAdd1(BinaryTests):
    operator = "add1"
    ulp: ClassVar = {"directml:software": 1}  # a fused RELU gives −0 for negative numbers
    levels = "2.0: 4-5D F32 F16 | 3.0: 1-8D F32 F16"
    sample = case(
        "two dimensions", [[[1, 2, 3], [4, 5, 6]], [[10, 20, 30], [40, 50, 60]]], [[11, 22, 33], [44, 55, 66]]
    )
    cases = (
        *each_dtype(FLOATS, "sums", [[1, -2, 3], [4, -5, 6]], [5, -7, 9]),
        *each_dtype(FLOATS, "infinities and NaN", [[INF, INF, -INF, NAN], [1, -INF, -INF, 1]], [INF, NAN, -INF, NAN]),
        *each_dtype(FLOATS, "RELU", [[1, -2, 3], [-4, 5, -3]], [0, 3, 0], fused_activation="activation_relu"),
        *each_dtype(
            FLOATS,
            "an activation with attributes",
            [[1, -2], [-3, 5]],
            [-1, 3],
            fused_activation={"op": "activation_leaky_relu", "alpha": 0.5},
        ),
        *each_dtype(
            FLOATS,
            "a linear activation",
            [[1, -2], [2, 5]],
            [7, 7],
            fused_activation={"op": "activation_linear", "alpha": 2, "beta": 1},
        ),
    )

    def test_activation_is_as_after_the_sum(self, device: DeviceName) -> None:
        a, b = array([1, -2, 0.5, -0.25], "float32"), array([0.25, 1, -3, 0.5], "float32")
        for activation in ("activation_sigmoid", "activation_tanh", "activation_softplus", "activation_elu"):
            fused = run("add1", [a, b], device=device, fused_activation=activation)
            assert_same(fused, run(activation, [run("add", [a, b], device=device)], device=device), 1)

    def test_activations_that_are_fused(self) -> None:
        fusable = {name for name, each in REGISTRY.items() if "ELEMENT_WISE_ADD1" in each.support().fusable_into}
        assert "activation_relu" in fusable
        others: dict[str, dict[str, Any]] = {
            "activation_softmax1": {"axes": [1]},
            "clip": {"min": 0, "max": 1},
            "abs": {},
        }
        for name, attributes in others.items():
            error = refused("add1", self.sample.inputs, fused_activation={"op": name, **attributes})
            assert (error.field, error.got) == ("fused_activation", name)
            expect(error, "activation", node="node", field="fused_activation")
            assert set((error.allowed or "").split(", ")) == fusable
            assert name not in fusable

    @pytest.mark.parametrize(
        ("activation", "code", "got", "field"),
        [
            ("activation_rel", "unknown-operator", "activation_rel", "fused_activation"),
            ({"alpha": 1}, "kind", {"alpha": 1}, "fused_activation"),
            ({"op": "activation_leaky_relu", "alph": 1}, "unknown-field", None, "fused_activation.alph"),
        ],
    )
    def test_an_activation_that_cannot_be_read(self, activation: Any, code: str, got: object, field: str) -> None:
        error = refused("add1", self.sample.inputs, fused_activation=activation)
        expect(error, code, node="node", field=field, got=got)

    def test_the_fused_activation_has_no_tensors(self) -> None:
        graph = dg.Graph("test")
        x = graph.input("x", sizes=[2], dtype="float32")
        add_node(graph, "add1", [x, x], fused_activation="activation_relu")
        fused = operator_of(graph.node("node"))
        tensors = [value for member, value in fused.fused_activation.struct_values() if member.kind is Kind.TENSOR]
        assert tensors == [None, None]
