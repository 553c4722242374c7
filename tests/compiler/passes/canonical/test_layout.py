"""Data movement that readers do through their strides."""

from __future__ import annotations

import numpy as np
import pytest
from support.nodes import operator_of
from support.passes.fusing import applied, assert_same_bits, dispatches, fused, operators, refusal

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName

X = np.arange(24, dtype=np.float32).reshape(1, 1, 4, 6)
ROW = np.array([[[[1, 2, 3, 5, 7, 11]]]], np.float32)


def test_a_repeated_row_is_read_again_and_again(device: DeviceName) -> None:
    graph = dg.Graph("test")
    x = graph.input("x", sizes=X.shape, dtype="float32")
    row = graph.input("row", sizes=ROW.shape, dtype="float32")
    graph.output("y", x - dg.tile(row, repeats=[1, 1, 4, 1]))
    result = fused(graph, "tile_to_strides")
    assert operators(result) == ["subtract"]
    np.testing.assert_array_equal(graph.compile(device).run({"x": X, "row": ROW})["y"], X - ROW)


@pytest.mark.usefixtures("directml_path")
def test_a_repeated_row_costs_no_dispatch() -> None:
    graph = dg.Graph("test")
    row = graph.input("row", sizes=ROW.shape, dtype="float32")
    graph.output("y", dg.exp(dg.tile(row, repeats=[1, 1, 4, 1])))
    assert dispatches(graph, {"row": ROW}, fuse=False) == 2
    assert dispatches(graph, {"row": ROW}) == 1


def test_repeating_more_than_one_element_is_a_copy() -> None:
    graph = dg.Graph("test")
    row = graph.input("row", sizes=ROW.shape, dtype="float32")
    graph.output("y", dg.exp(dg.tile(row, repeats=[1, 1, 4, 2])))
    assert "size 1" in refusal(fused(graph, "tile_to_strides"), "tile_to_strides")


@pytest.mark.parametrize(("sizes", "steps"), [([1, 1, 2, 3], [1, 1, 2, 2]), ([1, 1, 4, 2], [1, 1, 1, 5])])
def test_a_slice_from_the_first_element_is_stepped_through(
    sizes: list[int], steps: list[int], device: DeviceName
) -> None:
    graph = dg.Graph("test")
    x = graph.input("x", sizes=X.shape, dtype="float32")
    graph.output("y", dg.negate(dg.slice(x, offsets=[0] * 4, sizes=sizes, strides=steps)))
    assert applied(fused(graph)) == ["slice_to_strides"]
    np.testing.assert_array_equal(graph.compile(device).run({"x": X})["y"], -X[:, :, :: steps[2], :: steps[3]])


def test_slice1_too(device: DeviceName) -> None:
    graph = dg.Graph("test")
    x = graph.input("x", sizes=X.shape, dtype="float32")
    part = dg.slice1(
        x, input_window_offsets=[0] * 4, input_window_sizes=[1, 1, 3, 6], input_window_strides=[1, 1, 2, 1]
    )
    graph.output("y", dg.negate(part))
    assert operators(fused(graph)) == ["negate"]
    np.testing.assert_array_equal(graph.compile(device).run({"x": X})["y"], -X[:, :, 0:3:2])


def test_a_slice_of_a_strided_input_multiplies_the_strides() -> None:
    graph = dg.Graph("test")
    x = graph.input("x", sizes=X.shape, dtype="float32", strides=[24, 24, 1, 4])
    graph.output("y", dg.negate(dg.slice(x, offsets=[0] * 4, sizes=[1, 1, 2, 2], strides=[1, 1, 2, 3])))
    result = fused(graph)
    (node,) = (node for node in result.graph.nodes if node.name == "negate")
    assert operator_of(node).input.strides == (24, 24, 2, 12)
    assert_same_bits(graph, {"x": X})


@pytest.mark.parametrize(
    ("offsets", "steps", "why"),
    [
        ([0, 0, 1, 0], [1, 1, 1, 1], "does not begin at the first element"),
        ([0, 0, 0, 0], [1, 1, 1, -1], "does not begin at the first element"),
    ],
)
def test_a_slice_that_begins_elsewhere_is_a_copy(offsets: list[int], steps: list[int], why: str) -> None:
    graph = dg.Graph("test")
    x = graph.input("x", sizes=X.shape, dtype="float32")
    part = dg.slice1(x, input_window_offsets=offsets, input_window_sizes=[1, 1, 2, 6], input_window_strides=steps)
    graph.output("y", dg.negate(part))
    assert why in refusal(fused(graph, "slice_to_strides"), "slice_to_strides")


def test_a_reader_that_takes_no_strides_of_zero_keeps_the_tile() -> None:
    graph = dg.Graph("test")
    x = graph.input("x", sizes=[2, 6], dtype="float32")
    rows = graph.input("rows", sizes=[1, 1], dtype="uint32")
    updates = graph.input("updates", sizes=[3, 6], dtype="float32")
    indices = dg.tile(rows, repeats=[3, 1])
    graph.output("y", dg.scatter_nd(x, indices, updates, input_dimension_count=2, indices_dimension_count=2))
    why = refusal(fused(graph, "tile_to_strides"), "tile_to_strides")
    assert "field 'indices.strides': must not be zero: DirectML refuses it here" in why


def test_a_reader_that_has_not_been_measured_keeps_the_slice() -> None:
    graph = dg.Graph("test")
    x = graph.input("x", sizes=X.shape, dtype="float32")
    part = dg.slice(x, offsets=[0] * 4, sizes=[1, 1, 2, 3], strides=[1, 1, 2, 2])
    graph.output("y", dg.mean_variance_normalization2(part, axes=[3], use_mean=True, use_variance=True, epsilon=1e-5))
    assert "has not been measured with other strides" in refusal(fused(graph, "slice_to_strides"), "slice_to_strides")


@pytest.mark.parametrize("order", [(0, 2, 1, 3), (3, 2, 1, 0)])
def test_a_producer_writes_in_the_order_of_a_copy(order: tuple[int, ...], device: DeviceName) -> None:
    """Two copies become none: the producer writes in the first reader's order, and the other reads through strides."""
    graph = dg.Graph("test")
    x = graph.input("x", sizes=[2, 3, 4, 5], dtype="float32")
    made = dg.activation_softmax1(x, axes=[3])
    merged = made.transpose(order).reshape(-1, 2 * made.transpose(order).sizes[-1] // 2)
    graph.output("y", merged @ graph.constant("w", np.ones((merged.sizes[1], 2), np.float32)))
    graph.output("z", dg.tanh(made))
    result = fused(graph)
    assert {"write_in_order", "remove_copy"} <= set(applied(result))
    assert "identity" not in operators(result)
    data = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32)
    got = graph.compile(device).run({"x": data})
    expected = np.exp(data) / np.exp(data).sum(-1, keepdims=True)
    np.testing.assert_allclose(got["z"], np.tanh(expected), rtol=1e-5)
    flat = expected.transpose(order).reshape(-1, merged.sizes[1])
    np.testing.assert_allclose(got["y"], np.repeat(flat.sum(1, keepdims=True), 2, 1), rtol=1e-5)


def test_a_copy_that_repeats_is_not_written_by_its_producer() -> None:
    graph = dg.Graph("test")
    x = graph.input("x", sizes=[2, 1, 3], dtype="float32")
    repeated = dg.activation_softmax1(x, axes=[2]).broadcast_to(2, 4, 3).reshape(8, 3)
    graph.output("y", repeated @ graph.constant("w", np.ones((3, 2), np.float32)))
    assert "no strides with which 'activation_softmax1' could write" in refusal(
        fused(graph, "write_in_order"), "write_in_order"
    )


def test_a_slice_that_is_an_output_stays() -> None:
    graph = dg.Graph("test")
    x = graph.input("x", sizes=X.shape, dtype="float32")
    graph.output("y", dg.slice(x, offsets=[0] * 4, sizes=[1, 1, 2, 3], strides=[1, 1, 2, 2]))
    assert "output of the graph" in refusal(fused(graph, "slice_to_strides"), "slice_to_strides")


def test_a_slice_that_is_copied_is_the_copy() -> None:
    """A slice that an identity reads costs as much as the identity, which devices can remove."""
    graph = dg.Graph("test")
    x = graph.input("x", sizes=X.shape, dtype="float32")
    part = dg.slice(x, offsets=[0] * 4, sizes=[1, 1, 2, 3], strides=[1, 1, 2, 2])
    graph.output("y", dg.identity(part))
    assert "one copy is needed" in refusal(fused(graph, "slice_to_strides"), "slice_to_strides")


def test_heads_are_brought_together_without_a_copy(device: DeviceName) -> None:
    """The producer writes in the order of the tokens; its reader sees heads and depth as one dimension."""
    graph = dg.Graph("test")
    a = graph.input("a", sizes=[2, 3, 4, 5], dtype="float32")
    b = graph.input("b", sizes=[2, 3, 5, 6], dtype="float32")
    w = graph.input("w", sizes=[18, 7], dtype="float32")
    graph.output("y", dg.gemm(dg.gemm(a, b).transpose(0, 2, 1, 3).reshape(8, 18), w))
    assert operators(fused(graph)) == ["gemm", "gemm"]
    random = np.random.default_rng(0)
    inputs = {node.name: random.integers(-3, 4, node.desc.sizes).astype(np.float32) for node in graph.inputs}
    expected = (inputs["a"] @ inputs["b"]).transpose(0, 2, 1, 3).reshape(8, 18) @ inputs["w"]
    np.testing.assert_array_equal(graph.compile(device).run(inputs)["y"], expected)
