"""Data movement that readers do through their strides."""

from __future__ import annotations

import numpy as np
import pytest

import dmlgraph as dg
from passes.fusing import applied, assert_same_bits, dispatches, fused, operators, refusal

X = np.arange(24, dtype=np.float32).reshape(1, 1, 4, 6)
ROW = np.array([[[[1, 2, 3, 5, 7, 11]]]], np.float32)


def test_a_repeated_row_is_read_again_and_again(device: str) -> None:
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
def test_a_slice_from_the_first_element_is_stepped_through(sizes: list[int], steps: list[int], device: str) -> None:
    graph = dg.Graph("test")
    x = graph.input("x", sizes=X.shape, dtype="float32")
    graph.output("y", dg.negate(dg.slice(x, offsets=[0] * 4, sizes=sizes, strides=steps)))
    assert applied(fused(graph)) == ["slice_to_strides"]
    np.testing.assert_array_equal(graph.compile(device).run({"x": X})["y"], -X[:, :, :: steps[2], :: steps[3]])


def test_slice1_too(device: str) -> None:
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
    assert node.operator.input.strides == (24, 24, 2, 12)
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


def test_readers_that_may_not_take_gaps_keep_the_slice() -> None:
    graph = dg.Graph("test")
    x = graph.input("x", sizes=X.shape, dtype="float32")
    part = dg.slice(x, offsets=[0] * 4, sizes=[1, 1, 2, 3], strides=[1, 1, 2, 2])
    graph.output("y", dg.gemm(part, dg.slice(x, offsets=[0, 0, 1, 1], sizes=[1, 1, 3, 2], strides=[1, 1, 1, 1])))
    reasons = {entry.node: entry.why for entry in fused(graph, "slice_to_strides").record}
    assert "'gemm' may not accept strides" in reasons[part.node]


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
