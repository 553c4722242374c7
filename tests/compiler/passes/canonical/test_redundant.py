"""Redundant nodes are removed, and no others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.passes.fusing import applied, assert_same_bits, fused, operators, refusal

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.devices.names import DeviceName

X = np.array([[[[1.5, -2.5, 0.0], [-0.0, np.nan, np.inf]]]], np.float32)
F16 = {"dtype": "float16"}


def graph_of(build: Callable[[Any], Any], dtype: DataTypeName = "float32") -> dg.Graph:
    """exp or bit_count of `build(x)`, so that the tested node is not an output of the graph."""
    graph = dg.Graph("test")
    value = build(graph.input("x", sizes=X.shape, dtype=dtype))
    last = dg.exp if value.dtype.is_float else dg.bit_count
    graph.output("y", last(value))
    return graph


COPIES: dict[str, Callable[[Any], Any]] = {
    "identity": dg.identity,
    "activation_identity": dg.activation_identity,
    "a cast to its own type": lambda x: dg.cast(x, dtype="float32"),
    "tile once": lambda x: dg.tile(x, repeats=[1, 1, 1, 1]),
    "a slice of everything": lambda x: dg.slice(x, offsets=[0] * 4, sizes=X.shape, strides=[1, 1, 1, 1]),
    "a stride along one element": lambda x: dg.slice(x, offsets=[0] * 4, sizes=X.shape, strides=[3, 1, 1, 1]),
    "slice1 of everything": lambda x: dg.slice1(
        x, input_window_offsets=[0] * 4, input_window_sizes=X.shape, input_window_strides=[-1, 1, 1, 1]
    ),
    "padding by nothing": lambda x: dg.padding(
        x, padding_mode="constant", padding_value=7, start_padding=[0] * 4, end_padding=[0] * 4
    ),
    "one tensor joined": lambda x: dg.join([x], axis=3),
    "one part split off": lambda x: dg.split(x, axis=3, outputs=[3])[0],
    "blocks of one pixel": lambda x: dg.space_to_depth(x, block_size=1),
    "and back": lambda x: dg.depth_to_space(x, block_size=1),
    "two identities": lambda x: dg.identity(dg.identity(x)),
    "a change of layout": lambda x: dg.identity(x, output={"strides": [6, 6, 1, 2]}),
    "a change of layout and back": lambda x: dg.identity(dg.identity(x, output={"strides": [6, 6, 1, 2]})),
}


@pytest.mark.parametrize("name", COPIES)
def test_copies_go(name: str, device: DeviceName) -> None:
    graph = graph_of(COPIES[name])
    result = fused(graph)
    assert operators(result) == ["exp"]
    assert set(applied(result)) == {"remove_copy"}
    assert_same_bits(graph, {"x": X}, device=device)


KEPT: dict[str, Callable[[Any], Any]] = {
    "scaled": lambda x: dg.identity(x, scale_bias=dg.ScaleBias(scale=3.0, bias=1.0)),
    "another type": lambda x: dg.cast(x, dtype="float16"),
    "tile twice": lambda x: dg.tile(x, repeats=[1, 1, 2, 1]),
    "a part": lambda x: dg.slice(x, offsets=[0, 0, 1, 0], sizes=[1, 1, 1, 3], strides=[1, 1, 1, 1]),
    "reversed": lambda x: dg.slice1(
        x, input_window_offsets=[0] * 4, input_window_sizes=X.shape, input_window_strides=[1, 1, 1, -1]
    ),
    "padded": lambda x: dg.padding(
        x, padding_mode="edge", padding_value=0, start_padding=[0] * 4, end_padding=[0, 0, 0, 1]
    ),
    "two joined": lambda x: dg.join([x, x], axis=3),
    "larger blocks": lambda x: dg.depth_to_space(dg.tile(x, repeats=[1, 4, 1, 1]), block_size=2),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_changes_something_stays(name: str) -> None:
    result = fused(graph_of(KEPT[name]), "remove_copy")
    assert len(operators(result)) >= 2
    assert result.record == ()


@pytest.mark.parametrize("kind", ["input", "constant"])
def test_an_output_of_the_graph_needs_a_node(kind: str) -> None:
    graph = dg.Graph("test")
    x = (
        graph.input("x", sizes=[2], dtype="float32")
        if kind == "input"
        else graph.constant("x", [1, 2], dtype="float32")
    )
    graph.output("y", dg.identity(x))
    assert "an output of the graph" in refusal(fused(graph, "remove_copy"), "remove_copy")


def test_an_output_keeps_its_layout() -> None:
    graph = dg.Graph("test")
    x = graph.input("x", sizes=[2, 3], dtype="float32")
    graph.output("y", dg.identity(dg.exp(x), output={"strides": [1, 2]}))
    result = fused(graph, "remove_copy")
    assert operators(result) == ["exp", "identity"]
    assert refusal(result, "remove_copy") == "it is an output of the graph with another layout"
    assert_same_bits(graph, {"x": np.arange(6, dtype=np.float32).reshape(2, 3)})


def test_readers_of_a_broadcast_copy_read_the_original_broadcast(device: DeviceName) -> None:
    graph = dg.Graph("test")
    x = graph.input("x", sizes=[1, 1, 2, 3], dtype="float32")
    row = graph.input("row", sizes=[3], dtype="float32")
    graph.output("y", x * dg.identity(row))
    assert operators(fused(graph)) == ["multiply"]
    inputs = {"x": X, "row": np.array([2, 3, 5], np.float32)}
    np.testing.assert_array_equal(graph.compile(device).run(inputs)["y"], X * inputs["row"])


def test_a_copy_that_is_read_through_other_strides_stays() -> None:
    graph = dg.Graph("test")
    x = graph.input("x", sizes=[1, 1, 2, 3], dtype="float32", strides=[6, 6, 1, 2])
    copy = dg.identity(x)
    part = dg.tile(dg.slice(copy, offsets=[0] * 4, sizes=[1, 1, 1, 2], strides=[1, 1, 1, 2]), repeats=[1, 1, 2, 1])
    graph.output("y", part + dg.slice(x, offsets=[0] * 4, sizes=[1, 1, 2, 2], strides=[1, 1, 1, 1]))
    assert_same_bits(graph, {"x": np.arange(6, dtype=np.float32).reshape(1, 1, 2, 3)})


@pytest.mark.parametrize(
    ("operator", "dtype"),
    [
        *((dg.negate, dtype) for dtype in ("float32", "float16", "int16", "int32", "int64")),
        *((dg.bit_not, dtype) for dtype in ("uint8", "uint32")),
    ],
)
def test_what_undoes_itself_goes(operator: Callable[[Any], Any], dtype: DataTypeName, device: DeviceName) -> None:
    graph = graph_of(lambda x: operator(operator(x)), dtype)
    assert len(operators(fused(graph, "double_negation"))) == 1
    is_float = dtype.startswith("float")
    data = X.astype(dtype) if is_float else np.array([[[[np.iinfo(dtype).min, 1, 2], [3, 127, 100]]]], dtype)
    assert_same_bits(graph, {"x": data}, device=device)


def test_what_undoes_itself_goes_where_it_is_read_broadcast(device: DeviceName) -> None:
    graph = dg.Graph("test")
    x = graph.input("x", sizes=[2, 3], dtype="float32")
    row = graph.input("row", sizes=[3], dtype="float32")
    graph.output("y", x + dg.negate(dg.negate(row), output={"strides": [1]}))
    graph.output("z", dg.negate(dg.negate(row)) * x)
    assert operators(fused(graph, "double_negation")) == ["add", "multiply"]
    inputs = {"x": np.arange(6, dtype=np.float32).reshape(2, 3), "row": np.array([2, np.nan, -0.0], np.float32)}
    assert_same_bits(graph, inputs, device=device)


def test_the_opposite_of_the_least_int8_is_not_undone() -> None:
    graph = graph_of(lambda x: dg.negate(dg.negate(x)), "int8")
    assert "int8" in refusal(fused(graph, "double_negation"), "double_negation")
    least = np.full(X.shape, -128, "int8")
    (bits,) = graph.compile("reference", fuse=False).run({"x": least}).values()
    assert (bits == bin(-127 & 0xFF).count("1")).all()


@pytest.mark.parametrize(
    ("function", "left"),
    [
        (lambda x, z: x + -z, "subtract"),
        (lambda x, z: -z + x, "subtract"),
        (lambda x, z: x - -z, "add"),
        (lambda x, z: x + -z.reshape(2, 1).broadcast_to(2, 3), "subtract"),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_a_sum_takes_the_sign_of_a_term(
    function: Callable[[Any, Any], Any], left: str, dtype: DataTypeName, device: DeviceName
) -> None:
    x = np.array([[1.5, -0.0, np.inf], [np.nan, 3, 7]]) if dtype.startswith("float") else np.arange(6) - 3
    z = np.array([[0.0], [np.inf]]) if dtype.startswith("float") else np.array([[np.iinfo("int32").min], [5]])
    inputs = {"x": x.reshape(2, 3).astype(dtype), "z": z.astype(dtype)}
    graph = dg.Graph("test")
    values = [graph.input(name, sizes=array.shape, dtype=dtype) for name, array in inputs.items()]
    graph.output("y", function(*values))
    assert operators(fused(graph, "negated_operand")) == [left]
    assert_same_bits(graph, inputs, device=device)


def test_a_sign_that_others_read_or_that_int8_lacks_stays() -> None:
    graph = dg.Graph("test")
    x, z = (graph.input(name, sizes=[3], dtype="float32") for name in "xz")
    graph.output("y", x + dg.negate(z, name="minus"))
    graph.output("w", dg.exp(graph.value("minus")))
    assert "'minus' has other readers" in refusal(fused(graph, "negated_operand"), "negated_operand")
    of_int8 = graph_of(lambda x: x - -x, "int8")
    assert "int8" in refusal(fused(of_int8, "negated_operand"), "negated_operand")


@pytest.mark.parametrize("operator", [dg.abs, dg.activation_relu, dg.ceil, dg.floor])
def test_what_was_done_is_not_done_again(operator: Callable[[Any], Any], device: DeviceName) -> None:
    graph = graph_of(lambda x: operator(operator(x)))
    assert len(operators(fused(graph))) == 2
    assert_same_bits(graph, {"x": X}, device=device)


def test_a_scale_between_two_of_the_same_counts() -> None:
    graph = graph_of(lambda x: dg.abs(dg.abs(x), scale_bias=dg.ScaleBias(scale=-1.0, bias=1.0)))
    assert operators(fused(graph, "remove_again")) == ["abs", "abs", "exp"]


@pytest.mark.parametrize(
    ("origin", "middle", "end", "left"),
    [
        ("float16", "float32", "float16", 0),
        ("int8", "int32", "int8", 0),
        ("uint16", "float32", "uint16", 0),
        ("float16", "float32", "float64", 1),
        ("uint8", "uint16", "uint32", 1),
        ("float32", "float16", "float32", 2),  # loses digits
        ("int32", "float32", "int32", 2),  # loses digits beyond 2^24
        ("uint8", "int8", "uint8", 2),  # saturates
        ("int16", "int32", "int8", 2),  # the second cast may differ from int16
    ],
)
def test_casts_join(origin: DataTypeName, middle: DataTypeName, end: DataTypeName, left: int) -> None:
    graph = dg.Graph("test")
    x = graph.input("x", sizes=[4], dtype=origin)
    casts = dg.cast(dg.cast(dg.identity(x), dtype=middle), dtype=end)
    graph.output("y", dg.identity(casts))
    assert operators(fused(graph, "join_casts")).count("cast") == left
    limits = np.finfo(origin) if origin.startswith("f") else np.iinfo(origin)
    assert_same_bits(graph, {"x": np.array([limits.max, limits.min, 1, 3], origin)}, "join_casts")
