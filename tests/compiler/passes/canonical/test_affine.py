"""Affine maps: which nodes are x · scale + bias, and the composition of two maps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.operators.harness import ulps
from support.passes.fusing import of_one, samples

import dmlgraph as dg
from dmlgraph.base.levels import FeatureLevel
from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.passes.canonical.affine import (
    affine,
    compose,
    compose_as_reals,
    nearly_affine,
)
from dmlgraph.compiler.rule import Declined
from dmlgraph.devices.directml.target import target
from dmlgraph.operators.declaration.traits import AffineMap, is_power_of_two

Build = Callable[[dg.Graph, dg.Value], dg.Value]


def seen(build: Build, dtype: str = "float32", view: Any = affine) -> AffineMap | None:
    ir = IrGraph.of(of_one(build, samples(dtype)), target(FeatureLevel.V5_0))
    found = view(ir, ir[ir.outputs["y"].node])
    assert found is None or found.operand.source.node == "x"
    return found and found.map


def fill(graph: dg.Graph, x: dg.Value, value: float) -> dg.Value:
    return graph.fill_value_constant(sizes=x.desc.sizes, dtype=x.desc.dtype, value=value)


MAPS: dict[str, tuple[Build, AffineMap]] = {
    "x · 3": (lambda g, x: x * 3, AffineMap(3.0)),
    "3 · x": (lambda g, x: 3 * x, AffineMap(3.0)),
    "by a full-size fill": (lambda g, x: x * fill(g, x, 3), AffineMap(3.0)),
    "by a constant": (lambda g, x: x * g.constant("k", np.full([1], 3, x.desc.dtype.numpy)), AffineMap(3.0)),
    "x − 3": (lambda g, x: x - 3, AffineMap(1.0, -3.0)),
    "3 − x": (lambda g, x: 3 - x, AffineMap(-1.0, 3.0)),
    "x / 8": (lambda g, x: x / 8, AffineMap(0.125)),
    "−x": (lambda g, x: dg.negate(x), AffineMap(-1.0)),
    "identity": (lambda g, x: dg.identity(x, scale_bias={"scale": 2, "bias": 1}), AffineMap(2.0, 1.0)),
    "linear": (lambda g, x: dg.activation_linear(x, alpha=2, beta=1), AffineMap(2.0, 1.0)),
}
OTHERS: dict[str, Build] = {
    "x / 3": lambda g, x: x / 3,
    "3 / x": lambda g, x: 3 / x,
    "x / 0": lambda g, x: x / 0.0,
    "x · x": lambda g, x: x * x,
    "identity": lambda g, x: dg.identity(x),
    "x + 0, which turns −0.0 to 0.0 where a ScaleBias would not": lambda g, x: x + 0.0,
    "x · 1": lambda g, x: x * 1.0,
    "x · ∞": lambda g, x: x * math.inf,
    "x + NaN": lambda g, x: x + math.nan,
    "x / 2^−149": lambda g, x: x / 2.0**-149,
    "two numbers": lambda g, x: dg.add(x * fill(g, x, 1), fill(g, x, 2) * 3),
}


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("name", MAPS)
def test_affine_maps(name: str, dtype: str) -> None:
    build, expected = MAPS[name]
    assert str(seen(build, dtype)) == str(expected)
    assert seen(build, dtype) == expected


@pytest.mark.parametrize("name", OTHERS)
def test_others(name: str) -> None:
    assert seen(OTHERS[name]) is None


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
def test_only_types_that_scale_bias_leaves_as_they_are(dtype: str) -> None:
    build = lambda g, x: x * 3  # noqa: E731
    ir = IrGraph.of(of_one(build, np.ones([1, 1, 1, 2], dtype)), target(FeatureLevel.V5_0))
    assert affine(ir, ir[ir.outputs["y"].node]) is None


def test_numbers_are_those_of_the_type() -> None:
    found = seen(lambda g, x: x * 0.1, "float16")
    assert found == AffineMap(float(np.float16(0.1)))


def test_a_pattern_divides_by_anything() -> None:
    assert seen(lambda g, x: x / 3, view=nearly_affine) == AffineMap(1 / 3)
    assert seen(lambda g, x: x / 0.0, view=nearly_affine) is None


def test_a_bias_of_0_counts() -> None:
    assert AffineMap(1.0, 0.0).shifts
    assert not AffineMap(1.0, -0.0).shifts
    assert AffineMap(1.0, 0.0).scale_bias is not None
    assert AffineMap().scale_bias is None


# Compositions: outer, inner, both as one.
COMPOSED: dict[str, tuple[AffineMap, AffineMap, AffineMap]] = {
    "the identity after a map": (AffineMap(), AffineMap(3.0, 5.0), AffineMap(3.0, 5.0)),
    "a sum after a product": (AffineMap(1.0, 5.0), AffineMap(3.0), AffineMap(3.0, 5.0)),
    "a power of two after a sum": (AffineMap(0.5), AffineMap(1.0, 3.0), AffineMap(0.5, 1.5)),
    "a power of two after both": (AffineMap(0.25), AffineMap(3.0, 5.0), AffineMap(0.75, 1.25)),
    "both are 1 or more": (AffineMap(3.0), AffineMap(-5.0), AffineMap(-15.0)),
    "both are 1 or less": (AffineMap(0.75), AffineMap(-0.375), AffineMap(-0.28125)),
    "a power of two first": (AffineMap(3.0, 7.0), AffineMap(-0.25), AffineMap(-0.75, 7.0)),
    "a negated sum's product": (AffineMap(-1.0), AffineMap(3.0), AffineMap(-3.0)),
}
DECLINED: dict[str, tuple[AffineMap, AffineMap, str]] = {
    "sums": (AffineMap(1.0, 2.0), AffineMap(1.0, 3.0), "not associative"),
    "a product after a sum": (AffineMap(3.0), AffineMap(1.0, 3.0), "without a bound"),
    "the opposite of a sum": (AffineMap(-1.0), AffineMap(1.0, 3.0), "without a bound"),
    "a sum after two products": (AffineMap(3.0, 1.0), AffineMap(5.0), "not within 2 ULP"),
    "one larger, one smaller": (AffineMap(3.0), AffineMap(0.1), "not within 2 ULP"),
    "overflow": (AffineMap(2.0**100), AffineMap(2.0**100), "not a normal float32"),
    "underflow": (AffineMap(2.0**-100), AffineMap(2.0**-100), "not a normal float32"),
    "the identity except for −0.0": (AffineMap(2.0), AffineMap(0.5, 0.0), "skips a scale of 1"),
    "a bias underflows": (AffineMap(2.0**-100), AffineMap(1.0, 2.0**-100), "not a normal float32"),
}


@pytest.mark.parametrize("name", COMPOSED)
def test_composed(name: str) -> None:
    outer, inner, both = COMPOSED[name]
    assert compose(outer, inner) == both
    assert compose(outer, inner).shifts == both.shifts


@pytest.mark.parametrize("name", DECLINED)
def test_declined(name: str) -> None:
    outer, inner, why = DECLINED[name]
    with pytest.raises(Declined) as caught:
        compose(outer, inner)
    assert why in caught.value.why


def test_as_if_they_were_real() -> None:
    assert compose_as_reals(AffineMap(3.0, 1.0), AffineMap(5.0, 2.0)) == AffineMap(15.0, 7.0)
    with pytest.raises(Declined):
        compose_as_reals(AffineMap(2.0**100), AffineMap(2.0**100))


def applied(affine_map: AffineMap, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return x * np.float32(affine_map.scale) + np.float32(affine_map.bias)


NUMBERS = st.floats(2.0**-20, 2.0**20, width=32) | st.integers(-20, 20).map(lambda power: 2.0**power)
BIASES = st.just(-0.0) | st.floats(-1000, 1000, width=32).filter(lambda number: number == 0 or abs(number) > 1e-20)
X = np.concatenate([samples("float32"), samples("float32", 1e-3), samples("float32", 1e6)], axis=3)


@given(st.tuples(NUMBERS, BIASES), st.tuples(NUMBERS, BIASES))
def test_a_composition_computes_the_same(outer: tuple[float, float], inner: tuple[float, float]) -> None:
    """Within 2 ULP, and to the bit where a scale is a power of two."""
    after, before = AffineMap(*outer), AffineMap(*inner)
    try:
        both = compose(after, before)
    except Declined:
        return
    with np.errstate(all="ignore"):
        distance = ulps(applied(both, X), applied(after, applied(before, X))).max()
    exact = is_power_of_two(after.scale) or is_power_of_two(before.scale)
    assert distance <= (0 if exact else 2)
