"""Constants into attributes: exponents and padding values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.passes.fusing import applied, assert_same_bits, dispatches, fused, operator, operators, refusal

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.devices.names import DeviceName

SIZES = [1, 2, 3, 4]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 1e-40, 3e38, -3e38, float("inf"), float("-inf"), float("nan")]


def values(dtype: str) -> Any:
    with np.errstate(all="ignore"):
        return np.array(SPECIAL * 2, np.float64).astype(dtype).reshape(SIZES)


def of(build: Callable[[dg.Graph, dg.Value], Any], dtype: DataTypeName = "float32", **keywords: Any) -> dg.Graph:
    g = dg.Graph("test", **keywords)
    g.output("y", build(g, g.input("x", sizes=SIZES, dtype=dtype)))
    return g


def filled(g: dg.Graph, value: Any, dtype: str = "float32", sizes: list[int] = SIZES) -> dg.Value:
    return g.fill_value_constant(sizes=sizes, dtype=dtype, value=value)


# pow.


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("exponent", [0, 0.5, 1, 2, 3, -1, -2.5, 1e10, float("inf"), float("nan")])
def test_a_known_exponent(exponent: float, dtype: DataTypeName, device: DeviceName) -> None:
    g = of(lambda g, x: dg.pow(x, filled(g, exponent)), dtype)
    assert operator(fused(g, "constant_exponent")).name == "constant_pow"
    assert_same_bits(g, {"x": values(dtype)}, "constant_exponent", device=device)


def test_an_integer_exponent(device: DeviceName) -> None:
    g = of(lambda g, x: dg.pow(x, filled(g, -3, "int32")))
    assert operator(fused(g, "constant_exponent")).exponent == -3
    assert_same_bits(g, {"x": values("float32")}, "constant_exponent", device=device)


@pytest.mark.parametrize(
    ("build", "dtype", "why"),
    [
        (lambda g, x: dg.pow(x, filled(g, (1 << 24) + 1, "int32")), "float32", "16777217 is not a float32"),
        (lambda g, x: dg.pow(x, filled(g, 2, "int32")), "int32", "POW of integers computes another function"),
        (
            lambda g, x: dg.pow(x, filled(g, 2), scale_bias={"scale": 2}),
            "float32",
            "scale and bias also apply to the exponent",
        ),
    ],
)
def test_exponents_that_stay(build: Any, dtype: DataTypeName, why: str) -> None:
    assert why in refusal(fused(of(build, dtype), "constant_exponent"), "constant_exponent")


def test_an_exponent_for_each_element_is_none() -> None:
    g = of(lambda g, x: dg.pow(x, g.constant("e", np.arange(4, dtype=np.float32))))
    assert applied(fused(g, "constant_exponent")) == []


# join.


@pytest.mark.parametrize("dtype", ["float16", "float32", "uint8", "int64"])
@pytest.mark.parametrize("axis", [1, 3])
def test_joined_fills_are_padding(axis: int, dtype: DataTypeName, device: DeviceName) -> None:
    g = of(lambda g, x: dg.join([filled(g, 7, dtype), x, filled(g, 7, dtype), filled(g, 7, dtype)], axis=axis), dtype)
    assert operator(fused(g, "pad_for_join")).name == "padding1"
    x = np.arange(24).astype(dtype).reshape(SIZES)
    assert_same_bits(g, {"x": x}, "pad_for_join", device=device)


@pytest.mark.parametrize("value", [-0.0, float("nan"), float("-inf")])
@pytest.mark.parametrize("target", ["3.0", "6.2"])
def test_special_numbers_are_added(value: float, target: str, device: DeviceName) -> None:
    g = of(lambda g, x: dg.join([x, filled(g, value)], axis=2), target=target)
    assert operator(fused(g, "pad_for_join")).name == ("padding" if target == "3.0" else "padding1")
    assert_same_bits(g, {"x": values("float32")}, "pad_for_join", device=device)


def test_integers_below_the_level_of_padding1() -> None:
    def join(value: int) -> dg.Graph:
        return of(lambda g, x: dg.join([x, filled(g, value, "int32")], axis=2), "int32", target="4.1")

    x = np.arange(24, dtype=np.int32).reshape(SIZES)
    assert operators(fused(join(-3), "pad_for_join")) == ["padding"]
    assert_same_bits(join(-3), {"x": x}, "pad_for_join")
    assert "cannot add 16777217" in refusal(fused(join((1 << 24) + 1), "pad_for_join"), "pad_for_join")


def test_different_numbers_and_several_parts_are_joined() -> None:
    g = of(lambda g, x: dg.join([filled(g, 1), x, filled(g, 2)], axis=1))
    assert refusal(fused(g, "pad_for_join"), "pad_for_join") == "it joins different numbers"
    g = of(lambda g, x: dg.join([x, filled(g, 1), dg.exp(x)], axis=1))
    assert applied(fused(g, "pad_for_join")) == []


@pytest.mark.usefixtures("directml_path")
def test_dispatches() -> None:
    x = {"x": values("float32")}
    g = of(lambda g, x: dg.join([filled(g, 7), x, filled(g, 7)], axis=3))
    assert (dispatches(g, x, fuse=False), dispatches(g, x)) == (3, 1)
    g = of(lambda g, x: dg.pow(x, filled(g, 3)))
    assert (dispatches(g, x, fuse=False), dispatches(g, x)) == (2, 1)
