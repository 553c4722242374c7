"""Consecutive sums and products of integers with numbers become one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.passes.fusing import Array, assert_same_bits, fused, of_one, operators, refusal, results

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName

Build = Callable[[dg.Graph, dg.Value], dg.Value]


def constant(graph: dg.Graph, x: dg.Value, value: float) -> dg.Value:
    return graph.constant(f"k{abs(value)}".replace(".", "_"), np.full([1, 1, 1, 1], value, x.desc.dtype.numpy))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_integers_wrap(dtype: str, device: DeviceName) -> None:
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    x = np.array([[[[low, high, 0, 1, 100]]]], dtype)
    chains: dict[str, tuple[Build, str]] = {
        "sums": (lambda g, x: x + 100 + 100 - 3, "add"),
        "products": (lambda g, x: x * 100 * 77, "multiply"),
        "a difference": (lambda g, x: 100 - (x + 100), "subtract"),
        "twice from": (lambda g, x: 100 - (77 - x), "add"),
    }
    for build, becomes in chains.values():
        graph = of_one(build, x)
        result = fused(graph, "fold_integer_numbers")
        assert sorted(operators(result)) == sorted([becomes, "fill_value_constant"])
        assert_same_bits(graph, {"x": x}, "fold_integer_numbers", device=device)


def test_constants_stay_constants() -> None:
    x = np.ones([1, 1, 1, 3], np.int32)
    graph = of_one(lambda g, x: x + constant(g, x, 3) + constant(g, x, 4), x)
    result = fused(graph, "fold_integer_numbers")
    assert operators(result) == ["add"]
    assert_same_bits(graph, {"x": x}, "fold_integer_numbers")


def test_there_is_no_integer_multiply_add() -> None:
    result = fused(of_one(lambda g, x: x * 3 + 4, np.ones([1, 1, 1, 3], np.int32)), "fold_integer_numbers")
    assert "no operator multiplies and adds" in refusal(result, "fold_integer_numbers")


def test_an_integer_that_others_read_stays() -> None:
    result = fused(
        of_one(lambda g, x: dg.max(x + 3, x + 3 + 4), np.ones([1, 1, 1, 3], np.int32)), "share", "fold_integer_numbers"
    )
    assert "has other readers" in refusal(result, "fold_integer_numbers")


@given(st.lists(st.tuples(st.sampled_from("+-*r"), st.integers(-128, 127)), min_size=1, max_size=6))
def test_any_chain_of_integers(steps: list[tuple[str, int]]) -> None:
    x: Array = np.arange(-128, 128, dtype=np.int8).reshape(1, 1, 1, 256)
    expected = x.astype(object)

    def build(_: dg.Graph, x: dg.Value) -> dg.Value:
        for kind, number in steps:
            x = {"+": lambda x, n: x + n, "-": lambda x, n: x - n, "*": lambda x, n: x * n, "r": lambda x, n: n - x}[
                kind
            ](x, number)
        return x

    for kind, number in steps:
        expected = {"+": expected + number, "-": expected - number, "*": expected * number, "r": number - expected}[
            kind
        ]
    ((got, _),) = results(of_one(build, x), {"x": x}, "fold_integer_numbers")
    assert (got == ((expected + 128) % 256 - 128).astype(np.int8)).all()
