"""Constants: values computed in advance, and values stored as one element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.passes.fusing import applied, assert_same_bits, dispatches, fused, operators, refusal

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName
from dmlgraph.graph.nodes import ConstantNode
from dmlgraph.passes import Fused

SIZES = [1, 1, 4, 6]
X = {"x": np.arange(24, dtype=np.float32).reshape(SIZES)}


def of(build: Callable[[dg.Graph, dg.Value], Any], sizes: list[int] = SIZES, **keywords: Any) -> dg.Graph:
    """A graph whose output is a function of an input x."""
    g = dg.Graph("test", **keywords)
    g.output("y", build(g, g.input("x", sizes=sizes, dtype="float32")))
    return g


def filled(g: dg.Graph, value: Any, sizes: list[int] = SIZES) -> dg.Value:
    return g.fill_value_constant(sizes=sizes, dtype="float32", value=value)


def constants(result: Fused) -> list[ConstantNode]:
    return [node for node in result.graph.nodes if isinstance(node, ConstantNode)]


# Folding.


def test_what_is_computed_from_constants_is_one(device: DeviceName) -> None:
    def build(g: dg.Graph, x: dg.Value) -> dg.Value:
        w = g.constant("w", X["x"])
        return x + dg.reduce(w * w + filled(g, 1), function="sum", axes=[3])

    g = of(build)
    result = fused(g, "fold_constants")
    assert operators(result) == ["add"]
    (constant,) = constants(result)
    assert constant.data.ravel().tolist() == [61, 457, 1285, 2545]  # rows of six squares, and six ones
    assert_same_bits(g, X, "fold_constants", device=device)


def test_every_used_output_is_a_constant() -> None:
    def build(g: dg.Graph, x: dg.Value) -> dg.Value:
        values, indices = dg.top_k(g.constant("w", X["x"]), axis=3, k=2)
        return dg.slice(x, offsets=[0] * 4, sizes=[1, 1, 4, 2], strides=[1] * 4) * values + dg.cast(
            indices, dtype="float32"
        )

    g = of(build)
    result = fused(g, "fold_constants")
    assert operators(result) == ["slice", "multiply", "add"]
    assert sorted(each.data[0, 0, 0].tolist() for each in constants(result)) == [[5, 4], [5, 4]]
    assert_same_bits(g, X, "fold_constants")


def test_diagonal_matrices_are_constants() -> None:
    g = of(lambda g, x: x + g.diagonal_matrix(sizes=SIZES, dtype="float32", offset=1, value=3))
    assert operators(fused(g, "fold_constants")) == ["add"]
    assert_same_bits(g, X, "fold_constants")


def test_constants_are_read_through_their_strides() -> None:
    def build(g: dg.Graph, x: dg.Value) -> dg.Value:
        row, column = g.constant("row", X["x"][:, :, :1]), g.constant("column", X["x"][..., :1])
        return x + (row - column)

    g = of(build)
    (constant,) = constants(fused(g, "fold_constants"))
    assert constant.data[0, 0, :, 0].tolist() == [0, -6, -12, -18]
    assert_same_bits(g, X, "fold_constants")


def test_an_output_of_the_graph_is_copied_from_its_constant(device: DeviceName) -> None:
    g = dg.Graph("test")
    g.output("y", dg.tanh(g.constant("w", X["x"])))
    assert operators(fused(g, "fold_constants")) == ["identity"]
    (got,) = g.compile(device, fuse=["fold_constants"]).run({}).values()
    np.testing.assert_array_equal(got, np.tanh(X["x"].astype(np.float64)).astype(np.float32))


def test_small_constants_do_not_become_large_ones() -> None:
    def build(g: dg.Graph, x: dg.Value) -> dg.Value:
        return x * dg.tile(g.constant("w", X["x"]), repeats=[1, 1, 64, 64])

    why = refusal(fused(of(build, [1, 1, 256, 384]), "fold_constants"), "fold_constants")
    assert why == "it would become a constant of 393216 bytes"


def test_large_constants_may_take_the_place_of_large_ones() -> None:
    def build(g: dg.Graph, x: dg.Value) -> dg.Value:
        return x * (g.constant("w", np.ones([256, 384], "float32")) * g.constant("v", np.arange(384.0, dtype="f4")))

    assert operators(fused(of(build, [256, 384]), "fold_constants")) == ["multiply"]

    def twice(g: dg.Graph, x: dg.Value) -> dg.Value:
        w = g.constant("w", np.ones([256, 384], "float32"))
        return x * dg.tanh(w) + w

    assert "a constant of" in refusal(fused(of(twice, [256, 384]), "fold_constants"), "fold_constants")


def test_much_work_is_left() -> None:
    def build(g: dg.Graph, x: dg.Value) -> dg.Value:
        w = g.constant("w", np.ones([1, 1, 128, 128], "float32"))
        return x * dg.gemm(w, w)

    why = refusal(fused(of(build, [1, 1, 128, 128]), "fold_constants"), "fold_constants")
    assert why == "computing it in advance is too much work"


def test_random_numbers_and_what_is_given_are_left() -> None:
    def build(g: dg.Graph, x: dg.Value) -> dg.Value:
        state = g.constant("state", np.arange(6, dtype=np.uint32).reshape(1, 1, 1, 6))
        return x + dg.cast(dg.random_generator(state, sizes=SIZES)[0], dtype="float32")

    assert applied(fused(of(build), "fold_constants")) == []


# One element.


def test_fills_become_one_element(device: DeviceName) -> None:
    def build(g: dg.Graph, x: dg.Value) -> dg.Value:
        return dg.max(x, filled(g, 3)) * filled(g, 2) + 2

    g = of(build)
    result = fused(g, "one_element", "share")
    assert operators(result) == ["max", "multiply", "add"]
    assert sorted((each.data.shape, each.data.item()) for each in constants(result)) == [((1,), 2), ((1,), 3)]
    assert_same_bits(g, X, "one_element", "share", device=device)


@pytest.mark.parametrize("value", [-0.0, float("nan"), float("-inf")])
def test_special_numbers_keep_their_bits(value: float, device: DeviceName) -> None:
    g = of(lambda g, x: dg.if_(dg.logical_greater_than(x, 5), x, filled(g, value)))
    assert_same_bits(g, X, "one_element", device=device)


def test_equal_constants_become_one_element() -> None:
    g = of(lambda g, x: x * g.constant("w", np.full(SIZES, 0.5, "float32")))
    result = fused(g, "one_element")
    assert [each.data.shape for each in constants(result)] == [(1,)]
    assert_same_bits(g, X, "one_element")
    g = of(lambda g, x: x * g.constant("w", X["x"]))
    assert applied(fused(g, "one_element")) == []


def test_one_row_for_many() -> None:
    g = of(lambda g, x: x * filled(g, 2, [1, 1, 4, 1]))
    assert [each.data.shape for each in constants(fused(g, "one_element"))] == [(1,)]
    assert_same_bits(g, X, "one_element")


def test_other_readers_are_given_all_of_it(device: DeviceName) -> None:
    def build(g: dg.Graph, x: dg.Value) -> dg.Value:
        ones = filled(g, 1, [1, 1, 1, 6])
        return dg.batch_normalization(x, ones, ones, ones, ones, spatial=True, epsilon=0)

    g = of(build)
    result = fused(g, "one_element")
    assert [each.data.shape for each in constants(result)] == [(1, 1, 1, 6)]
    assert_same_bits(g, X, "one_element", device=device)

    def large(g: dg.Graph, x: dg.Value) -> dg.Value:
        return dg.activation_softmax1(filled(g, 1, [1, 1, 256, 256]), axes=[3]) + x

    why = refusal(fused(of(large, [256, 256]), "one_element"), "one_element")
    assert why == "'activation_softmax1' reads it whole: 262144 bytes"


@pytest.mark.parametrize("size", [7, 64])
def test_gemm_and_join_compute_the_same_from_one_element(size: int, device: DeviceName) -> None:
    def build(g: dg.Graph, x: dg.Value) -> dg.Value:
        fill = filled(g, 0.3, [size, size])
        return dg.join([dg.gemm(x, x, fill, beta=0.7), fill, x], axis=0)

    g = of(build, [size, size])
    assert [each.data.shape for each in constants(fused(g, "one_element"))] == [(1,)]
    x = np.random.default_rng(0).standard_normal([size, size], np.float32)
    assert_same_bits(g, {"x": x}, "one_element", device=device)


def test_a_fill_that_is_an_output_stays() -> None:
    def build(g: dg.Graph, x: dg.Value) -> dg.Value:
        fill = filled(g, 2)
        g.output("fill", fill)
        return x * fill

    assert applied(fused(of(build), "one_element")) == []


@pytest.mark.parametrize("target", ["2.1", "4.1", "6.2"])
def test_at_every_level(target: str, device: DeviceName) -> None:
    assert_same_bits(of(lambda g, x: x * filled(g, 2), target=target), X, "one_element", device=device)


# The cost on DirectML.


def masked(g: dg.Graph, x: dg.Value) -> dg.Value:
    mask = g.input("mask", sizes=SIZES, dtype="uint8")
    return dg.activation_softmax1(dg.if_(mask, x, filled(g, float("-inf"))), axes=[3])


@pytest.mark.usefixtures("directml_path")
def test_a_mask_costs_one_dispatch() -> None:
    feeds = X | {"mask": (np.arange(24) % 3 > 0).astype(np.uint8).reshape(SIZES)}
    softmax = dispatches(of(lambda g, x: dg.activation_softmax1(x, axes=[3])), X)
    assert dispatches(of(masked), feeds, fuse=False) == softmax + 2
    assert dispatches(of(masked), feeds) == softmax + 1
    assert_same_bits(of(masked), feeds, device="directml:software")


@pytest.mark.usefixtures("directml_path")
def test_a_number_costs_no_dispatch() -> None:
    g = of(lambda _, x: dg.atan_yx(x, 2.0))
    assert (dispatches(g, X, fuse=False), dispatches(g, X)) == (2, 1)
