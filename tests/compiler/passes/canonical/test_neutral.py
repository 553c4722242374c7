"""Neutral elements: operations that are removed, and operations that only seem to change nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.passes.fusing import applied, assert_same_bits, fused, operators

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.devices.names import DeviceName

SIZES = [1, 1, 2, 5]
SPECIAL = [0.0, -0.0, 1.0, -1.5, 3e38, -1e-30, float("inf"), float("-inf"), float("nan"), 7.0]
FLOATS, INTEGERS = ["float16", "float32"], ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"]
INF, NAN = float("inf"), float("nan")


def feed(dtype: str) -> dict[str, Any]:
    """The numbers most likely to be changed."""
    if dtype.startswith("float"):
        with np.errstate(all="ignore"):
            return {"x": np.array(SPECIAL, np.float64).astype(dtype).reshape(SIZES)}
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    return {"x": np.array([low, low + 1, 0, 1, 2, 3, 5, high // 2, high - 1, high], dtype).reshape(SIZES)}


def of(build: Callable[[dg.Value, Callable[[Any], dg.Value]], Any], dtype: DataTypeName) -> dg.Graph:
    """identity(build(identity(x))): the test looks at the nodes between the copies."""
    g = dg.Graph("test")
    x = dg.identity(g.input("x", sizes=SIZES, dtype=dtype), name="before")

    def filled(value: Any) -> dg.Value:
        return g.fill_value_constant(sizes=SIZES, dtype=dtype, value=value)

    g.output("y", dg.identity(build(x, filled), name="after"))
    return g


def between(g: dg.Graph, *rules: str) -> list[str]:
    """The operators between the copies."""
    left = [name for name in operators(fused(g, *rules)) if name != "identity"]
    assert operators(fused(g, *rules)).count("identity") == 2 or "fill_value_constant" in left
    return left


ONES = {"uint32": 0xFFFFFFFF, "uint8": 0xFF, "int32": -1}


@pytest.mark.parametrize(
    ("build", "dtypes"),
    [
        (lambda x, c: x + c(-0.0), FLOATS),
        (lambda x, c: c(-0.0) + x, FLOATS),
        (lambda x, c: x - c(0.0), FLOATS),
        (lambda x, c: x * c(1), FLOATS + INTEGERS),
        (lambda x, c: c(1) * x, FLOATS + INTEGERS),
        (lambda x, c: x / c(1), [*FLOATS, "int32", "uint8"]),
        (lambda x, c: x + c(0), INTEGERS),
        (lambda x, c: x - c(0), INTEGERS),
        (lambda x, c: dg.max(x, c(-128)), ["int8"]),
        (lambda x, c: dg.min(c(0xFFFFFFFF), x), ["uint32"]),
        (lambda x, c: dg.bit_or(x, c(0)), ["uint32", "uint8"]),
        (lambda x, c: dg.bit_xor(c(0), x), ["uint32", "uint8"]),
        (lambda x, c: dg.bit_and(x, c(0xFF)), ["uint8"]),
        (lambda x, c: dg.bit_shift_left(x, c(0)), ["uint32"]),
        (lambda x, c: dg.bit_shift_right(x, c(0)), ["uint32"]),
    ],
)
def test_numbers_that_change_nothing(build: Any, dtypes: list[DataTypeName], device: DeviceName) -> None:
    for dtype in dtypes:
        g = of(build, dtype)
        assert between(g, "remove_neutral") == []
        assert_same_bits(g, feed(dtype), "remove_neutral", device=device)


@pytest.mark.parametrize(
    ("build", "dtype"),
    [
        (lambda x, c: x + c(0.0), "float32"),  # −0.0 becomes 0.0
        (lambda x, c: x - c(-0.0), "float32"),
        (lambda x, c: c(0.0) - x, "float32"),
        (lambda x, c: c(1.0) / x, "float32"),
        (lambda x, c: x * c(0.0), "float32"),  # NaN, −0.0
        (lambda x, c: dg.max(x, c(-INF)), "float32"),  # NaN becomes the number
        (lambda x, c: dg.min(x, c(INF)), "float32"),
        (lambda x, c: c(0) - x, "int32"),
        (lambda x, c: dg.bit_shift_left(c(0), x), "uint32"),
        (lambda x, c: x * c(2), "int32"),
    ],
)
def test_numbers_that_only_seem_to(build: Any, dtype: DataTypeName) -> None:
    result = fused(of(build, dtype), "remove_neutral", "decide", "same_operands")
    assert applied(result) == []


@pytest.mark.parametrize(
    ("build", "dtypes"),
    [
        (lambda x, c: x * c(0), INTEGERS),
        (lambda x, c: dg.bit_and(c(0), x), ["uint32", "uint8"]),
        (lambda x, c: dg.bit_or(x, c(0xFF)), ["uint8"]),
        (lambda x, c: dg.max(x, c(127)), ["int8"]),
        (lambda x, c: dg.min(x, c(0)), ["uint16"]),
        (lambda x, c: dg.logical_and(x, c(0)), ["uint8"]),
        (lambda x, c: dg.logical_or(x, c(1)), ["uint8"]),
    ],
)
def test_numbers_that_decide(build: Any, dtypes: list[DataTypeName], device: DeviceName) -> None:
    for dtype in dtypes:
        g = of(build, dtype)
        assert between(g, "decide") == ["fill_value_constant"]
        assert_same_bits(g, feed(dtype), "decide", device=device)


@pytest.mark.parametrize(
    ("build", "dtypes"),
    [
        (lambda x, c: dg.max(x, x), FLOATS + INTEGERS),
        (lambda x, c: dg.min(x, x), FLOATS + INTEGERS),
        (lambda x, c: dg.bit_and(x, x), ["uint32"]),
        (lambda x, c: dg.if_(dg.logical_equals(x, c(1)), x, x), ["float32"]),
    ],
)
def test_the_same_twice(build: Any, dtypes: list[DataTypeName], device: DeviceName) -> None:
    for dtype in dtypes:
        g = of(build, dtype)
        assert between(g, "same_operands") == []
        assert_same_bits(g, feed(dtype), "same_operands", device=device)


def test_differences_of_the_same() -> None:
    for build in (lambda x, c: x - x, lambda x, c: dg.bit_xor(x, x)):
        g = of(build, "uint32")
        assert between(g, "same_operands") == ["fill_value_constant"]
        assert_same_bits(g, feed("uint32"), "same_operands")
    assert applied(fused(of(lambda x, c: x - x, "float32"), "same_operands")) == []  # NaN and infinities


def test_what_is_broadcast_is_read_so(device: DeviceName) -> None:
    g = dg.Graph("test")
    x = dg.exp(g.input("x", sizes=[1, 1, 1, 5], dtype="float32"))
    ones = g.fill_value_constant(sizes=SIZES, dtype="float32", value=1)
    g.output("y", dg.join([x * ones, x * ones], axis=2))
    assert operators(fused(g, "remove_neutral")) == ["exp", "join"]
    assert_same_bits(g, {"x": np.arange(5, dtype=np.float32).reshape(1, 1, 1, 5)}, "remove_neutral", device=device)


def test_scatter_nd_does_not_take_broadcast_indices() -> None:
    g = dg.Graph("test")
    x, updates = g.input("x", sizes=[4, 4], dtype="float32"), g.input("u", sizes=[1, 2], dtype="float32")
    row = dg.identity(g.input("i", sizes=[1, 2], dtype="uint32"))
    indices = row * g.fill_value_constant(sizes=[2, 2], dtype="uint32", value=1)
    g.output("y", dg.scatter_nd(x, indices, updates, input_dimension_count=2, indices_dimension_count=2))
    (entry,) = fused(g, "remove_neutral").record
    assert not entry.applied
    assert "DirectML refuses" in entry.why


def test_an_output_of_the_graph_is_not_an_input() -> None:
    g = dg.Graph("test")
    g.output("y", g.input("x", sizes=SIZES, dtype="float32") * 1)
    (entry,) = fused(g, "remove_neutral").record
    assert "cannot be an input or a constant" in entry.why
