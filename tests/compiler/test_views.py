"""Views become strides: what is copied, how often, and what is said about it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.passes.fusing import applied, fused, operator, operators

import dmlgraph as dg
from dmlgraph import passes
from dmlgraph.graph.nodes import ConstantNode, OperatorNode

SIZES = (2, 3, 4)
X = np.arange(24, dtype=np.float32).reshape(SIZES)
W = np.ones((8, 2), np.float32)


@pytest.fixture
def x() -> dg.Value:
    return dg.Graph("views").input("x", sizes=SIZES, dtype="float32")


def plain(graph: dg.Graph) -> list[str]:
    """The operators without fusion."""
    nodes = passes.fuse(graph, rules=False).graph.nodes
    return [each.operator.name for each in nodes if isinstance(each, OperatorNode)]


def copies(graph: dg.Graph) -> list[tuple[str, str]]:
    """(view, reason) of each copy."""
    return [(entry.node, entry.why) for entry in fused(graph).record if entry.rule == "copy"]


def test_a_view_is_read_through_strides(x: dg.Value) -> None:
    x.graph.output("y", dg.activation_softmax1(x.transpose(2, 0, 1), axes=[0]))
    found = operator(fused(x.graph))
    assert (found.input.sizes, found.input.strides) == ((4, 2, 3), (1, 12, 4))


def test_a_chain_of_views_is_one(x: dg.Value) -> None:
    view = x.reshape(6, 4).T[::2].expand_dims(1).reshape(2, 1, 3, 2).transpose(3, 1, 2, 0)
    x.graph.output("y", dg.activation_softmax1(view, axes=[0]))
    assert operators(fused(x.graph)) == ["activation_softmax1"]
    expected = X.reshape(6, 4).T[::2][:, None].reshape(2, 1, 3, 2).transpose(3, 1, 2, 0)
    expected = np.exp(expected) / np.exp(expected).sum(0)
    for device in ("reference", "cpu"):
        np.testing.assert_allclose(x.graph.compile(device).run({"x": X})["y"], expected, rtol=1e-5)


def test_one_copy_is_made_for_all_readers_of_a_view(x: dg.Value) -> None:
    weights = x.graph.constant("w", W)
    rows = x.transpose(1, 0, 2).reshape(3, 8)
    x.graph.output("y", rows @ weights)
    x.graph.output("z", dg.activation_softmax1(rows, axes=[1]))
    assert plain(x.graph).count("identity") == 1
    (copy,) = copies(x.graph)
    assert copy == ("transpose", "'reshape': no strides read it with these sizes")


def test_element_wise_readers_need_no_copy(x: dg.Value) -> None:
    rows = x.transpose(1, 0, 2).reshape(3, 8)
    x.graph.output("y", rows + dg.exp(rows) * x.graph.constant("row", W[:, 0]))
    assert "identity" not in plain(x.graph)
    turned = X.transpose(1, 0, 2).reshape(3, 8)
    for device in ("reference", "cpu"):
        got = x.graph.compile(device, fuse=False).run({"x": X})["y"]
        np.testing.assert_allclose(got, turned + np.exp(turned), rtol=1e-5)


def test_an_element_wise_operator_with_an_output_of_its_own_layout_needs_one(x: dg.Value) -> None:
    rows = x.transpose(1, 0, 2).reshape(3, 8)
    x.graph.output("y", dg.exp(rows, output={"strides": [16, 1]}))
    assert plain(x.graph).count("identity") == 1


def test_batches_of_products_are_cut_anew() -> None:
    g = dg.Graph("batches")
    q, k = g.input("q", sizes=[2, 4, 3, 5], dtype="float32"), g.input("k", sizes=[2, 2, 3, 5], dtype="float32")
    keys = k[:, :, None].broadcast_to(2, 2, 2, 3, 5).reshape(2, 4, 3, 5)
    g.output("y", q @ keys.transpose(0, 1, 3, 2))
    found = operator(fused(g))
    assert (found.a.sizes, found.b.sizes, found.b.strides) == ((4, 2, 3, 5), (4, 2, 3, 5), (15, 0, 5, 1))
    feeds = {"q": np.random.default_rng(0).random((2, 4, 3, 5), np.float32),
             "k": np.random.default_rng(1).random((2, 2, 3, 5), np.float32)}  # fmt: skip
    expected = feeds["q"] @ np.repeat(feeds["k"], 2, 1).transpose(0, 1, 3, 2)
    for device in ("reference", "cpu"):
        np.testing.assert_allclose(g.compile(device).run(feeds)["y"], expected, rtol=1e-5)


def test_constants_are_copied_when_the_graph_is_compiled(x: dg.Value) -> None:
    weights = x.graph.constant("w", np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    x.graph.output("y", dg.activation_softmax1(x, axes=[2]) + weights[:, ::-1])
    x.graph.output("z", x.reshape(3, 8) @ weights.transpose(1, 0, 2).reshape(8, 3))
    assert "identity" not in plain(x.graph)
    made = [node for node in passes.fuse(x.graph, rules=False).graph.nodes if isinstance(node, ConstantNode)]
    assert {node.desc.sizes for node in made} >= {(2, 3, 4)}
    got = x.graph.compile("cpu").run({"x": X})["z"]
    np.testing.assert_allclose(got, X.reshape(3, 8) @ weights_of(x).transpose(1, 0, 2).reshape(8, 3), rtol=1e-6)


def weights_of(value: dg.Value) -> np.ndarray:
    node = value.graph.node("w")
    assert isinstance(node, ConstantNode)
    return node.data


WHOLE = {
    "reshaped": (lambda x: x.reshape(6, 4), lambda x: x.reshape(6, 4)),
    "reversed": (lambda x: x.T, lambda x: x.T),
    "transposed": (lambda x: x.transpose(1, 0, 2), lambda x: x.transpose(1, 0, 2)),
    "flat": (lambda x: x.flatten(), lambda x: x.reshape(2, 12)),
    "with a new dimension": (lambda x: x[None], lambda x: x[None]),
}


@pytest.mark.parametrize(("build", "function"), WHOLE.values(), ids=WHOLE)
def test_an_output_that_is_the_whole_buffer_costs_nothing(x: dg.Value, build: Any, function: Any) -> None:
    x.graph.output("y", build(dg.negate(x)))
    assert plain(x.graph) == ["negate"]
    for device in ("reference", "cpu"):
        np.testing.assert_array_equal(x.graph.compile(device).run({"x": X})["y"], function(-X))


def test_an_output_that_is_a_part_is_a_copy_and_says_why(x: dg.Value) -> None:
    x.graph.output("y", dg.exp(x)[:, :2])
    assert copies(x.graph) == [("subscript", "the output 'y' needs a packed buffer")]


def test_a_slice_that_begins_later_says_why(x: dg.Value) -> None:
    x.graph.output("y", dg.exp(x[1]))
    assert copies(x.graph) == [("subscript", "a slice that does not begin at the first element, or goes back")]


def test_a_reader_that_does_not_take_strides_is_named() -> None:
    g = dg.Graph("refused")
    x = g.input("x", sizes=[2, 6], dtype="float32")
    rows = g.input("rows", sizes=[1, 1], dtype="uint32")
    updates = g.input("updates", sizes=[3, 6], dtype="float32")
    indices = rows.broadcast_to(3, 1)
    g.output("y", dg.scatter_nd(x, indices, updates, input_dimension_count=2, indices_dimension_count=2))
    ((view, why),) = copies(g)
    assert view == "broadcast_to"
    assert why.startswith("'scatter_nd', indices: ")
    assert "DirectML" in why


def test_copies_come_from_their_views(x: dg.Value) -> None:
    x.graph.output("y", x.transpose(1, 0, 2).reshape(3, 8) @ x.graph.constant("w", W))
    result = fused(x.graph)
    assert result.origins["transpose_copy"] == ("transpose",)


def test_views_that_nothing_reads_are_dropped(x: dg.Value) -> None:
    x.transpose(1, 0, 2).reshape(24)
    x.graph.output("y", dg.exp(x))
    assert plain(x.graph) == ["exp"]
    assert applied(fused(x.graph)) == []


def test_a_chain_of_thousands_of_views_compiles(x: dg.Value) -> None:
    value = x
    for _ in range(500):
        value = value.transpose(1, 0, 2).reshape(3, 8).T.reshape(2, 3, 4)
    x.graph.output("y", value @ value.transpose(0, 2, 1))
    assert x.graph.compile("cpu").run({"x": X})["y"].shape == (2, 3, 3)
