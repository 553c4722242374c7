"""The scale of a product with an activation goes into constant weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.passes.fusing import dispatches, fused, operator, refusal, results

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName

RANDOM = np.random.default_rng(7)
A = RANDOM.standard_normal((1, 1, 4, 6)).astype(np.float32)
B = RANDOM.standard_normal((1, 1, 6, 5)).astype(np.float32)


def weighted(alpha: float, weights: np.ndarray[Any, Any] = B, field: str = "b", **fields: Any) -> dg.Graph:
    graph = dg.Graph("test")
    constant = graph.constant("w", weights)
    other = graph.input("x", sizes=A.shape if field == "b" else (1, 1, 5, 6), dtype="float32")
    a, b = (other, constant) if field == "b" else (constant, other)
    fields = {"fused_activation": "activation_relu"} | fields
    graph.output("y", dg.gemm(a, b, alpha=alpha, **fields))
    return graph


@pytest.mark.parametrize("alpha", [0.125, -4.0])
@pytest.mark.parametrize("field", ["a", "b"])
def test_weights_are_scaled_beforehand(alpha: float, field: str, device: DeviceName) -> None:
    graph = weighted(alpha, field=field)
    result = fused(graph, "alpha_into_weights")
    assert operator(result).alpha == 1.0
    (constant,) = (node.data for node in result.graph.nodes if hasattr(node, "data"))
    np.testing.assert_array_equal(constant, B * np.float32(alpha))
    x = RANDOM.standard_normal(graph.inputs[0].desc.sizes).astype(np.float32)
    for got, expected in results(graph, {"x": x}, "alpha_into_weights", device=device):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    ("alpha", "weights", "why"),
    [
        (3.0, B, "not a power of two"),
        (2.0, np.full_like(B, 3e38), "infinite"),
        (0.5, np.full_like(B, 1.5e-45), "subnormal"),
    ],
)
def test_weights_stay(alpha: float, weights: np.ndarray[Any, Any], why: str) -> None:
    result = fused(weighted(alpha, weights), "alpha_into_weights")
    assert why in refusal(result, "alpha_into_weights")


@pytest.mark.parametrize("fields", [{"fused_activation": None}, {"alpha": 1.0}])
def test_what_is_one_dispatch_keeps_its_weights(fields: dict[str, Any]) -> None:
    graph = weighted(fields.pop("alpha", 2.0), **fields)
    assert fused(graph, "alpha_into_weights").record == ()


@pytest.mark.usefixtures("directml_path")
def test_a_scale_and_an_activation_cost_a_dispatch_unless_it_is_in_the_weights() -> None:
    x = {"x": A}
    assert dispatches(weighted(0.125), x, fuse=False) == 2
    assert dispatches(weighted(0.125), x, fuse=["alpha_into_weights"]) == 1
