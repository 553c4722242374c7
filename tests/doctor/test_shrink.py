"""Shrinking: a node that a device computes wrong becomes as small as it can be."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.faulty_device import Call, faulty

import dmlgraph as dg
from dmlgraph.doctor.shrink import Shrunk, shrink
from dmlgraph.doctor.trials import Trials
from dmlgraph.formats.yaml import dumps
from dmlgraph.graph.nodes import OperatorNode
from dmlgraph.operators.declaration.operator import Operator

Array = np.ndarray[Any, Any]


def numbers(*sizes: int, dtype: str = "float32") -> Array:
    return np.random.default_rng(sum(sizes)).normal(0, 3, sizes).astype(dtype)


def small(found: Shrunk) -> tuple[Operator, dict[str, Array]]:
    (node,) = (each for each in found.graph.nodes if isinstance(each, OperatorNode))
    return node.operator, dict(found.inputs)


def test_a_normalization_of_float16() -> None:
    """Its activation, scale and epsilon do not matter; numbers above 2 and the type do."""
    g = dg.Graph("net")
    x = g.input("secret", sizes=[2, 3, 4, 16], dtype="float16")
    scale = g.constant("weights", numbers(16, dtype="float16")).reshape(1, 1, 1, 16)
    y = dg.mean_variance_normalization2(
        x, scale, axes=[3], use_mean=False, use_variance=True, epsilon=1e-5, fused_activation="activation_elu"
    )
    g.output("y", y)

    def fault(call: Call) -> bool:
        x = call.given[0]
        is_norm = call.operator.name == "mean_variance_normalization2"
        return is_norm and x.dtype == np.float16 and bool(np.abs(x).max() > 2)

    trials = Trials(faulty(fault))
    found = shrink(g, {"secret": numbers(2, 3, 4, 16, dtype="float16")}, trials.is_wrong)
    operator, inputs = small(found)
    assert (operator.input_descs[0].sizes, operator.input_descs[1]) == ((1,), None)  # type: ignore[union-attr]
    assert operator.attributes["fused_activation"] is None
    assert {name: array.dtype for name, array in inputs.items()} == {"input": np.float16}
    assert abs(inputs["input"][0]) == 3
    assert found.is_smallest
    assert found.executions == trials.executions < 40
    text = dumps(found.graph)
    assert "secret" not in text
    assert "net" not in text
    assert len(text.splitlines()) < 10


def test_sizes_that_belong_together() -> None:
    """A product of at least 5 columns in which the inner size is even is wrong."""
    g = dg.Graph()
    a, b = g.input("a", sizes=[12, 12], dtype="float32"), g.input("b", sizes=[12, 12], dtype="float32")
    g.output("y", dg.gemm(a, b, alpha=0.25, name="y"))

    def fault(call: Call) -> bool:
        rows, columns = call.given[1].shape
        return columns >= 5 and rows % 2 == 0

    found = shrink(g, {"a": numbers(12, 12), "b": numbers(12, 12)}, Trials(faulty(fault)).is_wrong)
    operator, inputs = small(found)
    assert [each.sizes for each in operator.input_descs if each] == [(1, 2), (2, 5)]
    assert operator.attributes["alpha"] == 1
    assert all((array == 1).all() for array in inputs.values())
    assert found.is_anonymous


def test_a_single_element_matters() -> None:
    g = dg.Graph()
    g.output("y", dg.exp(g.input("x", sizes=[4, 8], dtype="float32"), name="y"))

    def fault(call: Call) -> bool:
        return bool(np.isnan(call.given[0]).any())

    x = numbers(4, 8)
    x[2, 3] = np.nan
    found = shrink(g, {"x": x}, Trials(faulty(fault)).is_wrong)
    _, inputs = small(found)
    assert inputs["input"].size <= 3  # the NaN itself is not where the fault is seen
    assert np.isnan(inputs["input"]).sum() == 1


def test_indices_stay_legal() -> None:
    g = dg.Graph()
    x = g.input("x", sizes=[1, 1, 16, 4], dtype="float32")
    at = g.input("at", sizes=[1, 1, 1, 6], dtype="uint32")
    g.output("y", dg.gather(x, at, axis=2, index_dimensions=1, name="y"))

    def fault(call: Call) -> bool:
        return call.right[0].size > 3

    given = {"x": numbers(1, 1, 16, 4), "at": np.array([3, 15, 0, 7, 7, 2], np.uint32).reshape(1, 1, 1, 6)}
    found = shrink(g, given, Trials(faulty(fault)).is_wrong)
    operator, inputs = small(found)
    assert operator.first_output.element_count == 4
    assert (inputs["indices"] == 0).all()


def test_the_executions_are_bounded() -> None:
    g = dg.Graph()
    g.output("y", dg.exp(g.input("x", sizes=[64, 8], dtype="float32"), name="y"))
    trials = Trials(faulty(lambda _: True))
    found = shrink(g, {"x": numbers(64, 8)}, trials.is_wrong, most=3)
    assert (found.executions, trials.executions, found.is_smallest) == (3, 3, False)
    assert trials.is_wrong(found.graph, found.inputs)


def test_what_needs_its_view_keeps_it() -> None:
    """A device that is wrong only where it reads strides: the packed tensor is right, and the case stays."""
    g = dg.Graph()
    x = g.input("x", sizes=[2, 3], dtype="float32")
    g.output("y", dg.exp(x.transpose(1, 0), name="y"))

    def fault(call: Call) -> bool:
        desc = call.operator.input_descs[0]
        return desc is not None and desc.strides is not None

    found = shrink(g, {"x": numbers(2, 3)}, Trials(faulty(fault)).is_wrong)
    assert found.graph is g
    assert not found.is_anonymous


def test_the_same_case_gives_the_same() -> None:
    g = dg.Graph()
    g.output("y", dg.exp(g.input("x", sizes=[6, 7], dtype="float16"), name="y"))

    def fault(call: Call) -> bool:
        return call.right[0].size % 3 == 0

    one, two = (shrink(g, {"x": numbers(6, 7, dtype="float16")}, Trials(faulty(fault)).is_wrong) for _ in range(2))
    assert dumps(one.graph) == dumps(two.graph)
    assert one.inputs["input"].tobytes() == two.inputs["input"].tobytes()
    assert one.executions == two.executions
