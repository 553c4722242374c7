"""Maxima and minima with numbers are clips, and clips of clips are one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.operators.harness import assert_same
from support.passes.fusing import applied, dispatches, fused, of_one, operator, operators, refusal, results, samples

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName

Build = Callable[[dg.Graph, dg.Value], dg.Value]
RULES = ("merge_clips", "number_to_clip")
INF, NAN = math.inf, math.nan


def fill(graph: dg.Graph, x: dg.Value, value: float) -> dg.Value:
    return graph.fill_value_constant(sizes=x.desc.sizes, dtype=x.desc.dtype, value=value)


def attributes(found: Any) -> dict[str, Any]:
    given = {name: value for name, value in found.attributes.items() if name in ("min", "max")}
    return {name: float(getattr(value, "value", value)) for name, value in given.items()}


def assert_same_but_for_zeros(graph: dg.Graph, x: Any, device: DeviceName, nan: float | None = None) -> None:
    """Bit for bit, with equal zeros; `nan` is the new result for NaN, if it changed."""
    for got, expected in results(graph, {"x": x}, *RULES, device=device):
        now = np.where(np.isnan(x), got.dtype.type(nan), expected) if nan is not None else expected
        assert_same(np.where(got == 0, 0, got).astype(got.dtype), np.where(now == 0, 0, now).astype(got.dtype))


# The graph, what it becomes, its bounds.
CLIPS: dict[str, tuple[Build, str, dict[str, float]]] = {
    "max with 0": (lambda g, x: dg.max(x, 0), "activation_relu", {}),
    "max with a full-size fill": (lambda g, x: dg.max(fill(g, x, 0), x), "activation_relu", {}),
    "max with 3": (lambda g, x: dg.max(x, 3), "threshold", {"min": 3}),
    "min with 6 and max with 0": (lambda g, x: dg.max(dg.min(x, 6), 0), "clip", {"min": 0, "max": 6}),
    "above each other": (lambda g, x: dg.max(dg.min(x, 1), 2), "clip", {"min": 2, "max": 2}),
    "two maxima": (lambda g, x: dg.max(dg.max(x, 1), 2), "threshold", {"min": 2}),
    "two clips": (
        lambda g, x: dg.clip(dg.clip(x, min=-1, max=1), min=0, max=6),
        "clip",
        {"min": 0, "max": 1},
    ),
    "clips that do not meet": (
        lambda g, x: dg.clip(dg.clip(x, min=-2, max=-1), min=1, max=2),
        "clip",
        {"min": 1, "max": 1},
    ),
    "min above max": (lambda g, x: dg.max(dg.clip(x, min=2, max=1), 0), "clip", {"min": 2, "max": 2}),
    "relu of a clip": (lambda g, x: dg.activation_relu(dg.clip(x, min=-1, max=1)), "clip", {"min": 0, "max": 1}),
    "relu of relu": (lambda g, x: dg.activation_relu(dg.activation_relu(x)), "activation_relu", {}),
    "threshold": (lambda g, x: dg.threshold(dg.max(x, 1), min=0), "threshold", {"min": 1}),
    "clip1": (lambda g, x: dg.clip1(dg.max(dg.min(x, 5), 1), min=0, max=3), "clip", {"min": 1, "max": 3}),
    "a scale and bias before": (
        lambda g, x: dg.max(dg.clip(x, min=-1, max=1, scale_bias={"scale": 2, "bias": 1}), 0),
        "clip",
        {"min": 0, "max": 1},
    ),
}


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("name", CLIPS)
def test_clips(name: str, dtype: str, device: DeviceName) -> None:
    build, becomes, bounds = CLIPS[name]
    x = samples(dtype)
    graph = of_one(build, x)
    found = operator(fused(graph, *RULES))
    assert (found.name, attributes(found)) == (becomes, bounds)
    assert_same_but_for_zeros(graph, x, device)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("build", [lambda g, x: dg.min(dg.max(x, 0), 6), lambda g, x: dg.min(dg.activation_relu(x), 6)])
def test_nan_becomes_the_upper_bound(build: Build, dtype: str, device: DeviceName) -> None:
    x = samples(dtype)
    graph = of_one(build, x)
    result = fused(graph, *RULES)
    assert (operator(result).name, attributes(operator(result))) == ("clip", {"min": 0, "max": 6})
    assert "NaN becomes the upper bound" in result.explain()
    assert_same_but_for_zeros(graph, x, device, nan=6)


def test_a_lower_bound_keeps_nan_where_nothing_is_above() -> None:
    assert "NaN" not in fused(of_one(lambda g, x: dg.max(dg.max(x, 1), 2), samples("float32")), *RULES).explain()


def test_a_minimum_ends_at_no_lower_bound(device: DeviceName) -> None:
    """CLIP of float16 ends at −65504, CLIP1 does not."""
    for dtype, becomes in (("float32", "clip"), ("float16", "clip1")):
        x = samples(dtype)
        graph = of_one(lambda g, x: dg.min(x, 6), x)
        found = operator(fused(graph, *RULES))
        assert (found.name, attributes(found)) == (becomes, {"min": -INF, "max": 6})
        assert_same_but_for_zeros(graph, x, device)


def test_float16_has_no_clip1_below_its_level() -> None:
    result = fused(of_one(lambda g, x: dg.min(x, 6), samples("float16"), target="4.1"), *RULES)
    assert "clip1" in refusal(result, "number_to_clip")


@pytest.mark.parametrize("bound", [INF, -INF])
def test_infinite_bounds(bound: float, device: DeviceName) -> None:
    for dtype in ("float16", "float32"):
        for build in (lambda g, x: dg.max(x, bound), lambda g, x: dg.min(x, bound)):
            x = samples(dtype)
            assert operators(fused(of_one(build, x), *RULES)) in (["threshold"], ["clip"], ["clip1"])
            assert_same_but_for_zeros(of_one(build, x), x, device)


def test_a_clip_of_float16_has_finite_bounds(device: DeviceName) -> None:
    x = samples("float16")
    graph = of_one(lambda g, x: dg.max(dg.clip(x, min=-INF, max=INF), -5), x)
    assert attributes(operator(fused(graph, *RULES))) == {"min": -5, "max": 65504}
    assert_same_but_for_zeros(graph, x, device)


def test_nan_is_no_bound() -> None:
    graph = of_one(lambda g, x: dg.max(dg.min(x, NAN), 0), samples("float32"))
    assert operators(fused(graph, *RULES)) == ["fill_value_constant", "min", "activation_relu"]


def test_one_that_is_read_elsewhere_stays() -> None:
    def build(_: dg.Graph, x: dg.Value) -> dg.Value:
        bounded = dg.max(x, 1)
        return dg.add(dg.min(bounded, 6), bounded)

    result = fused(of_one(build, samples("float32")), *RULES)
    assert operators(result) == ["threshold", "clip", "add"]
    assert any("has other readers" in entry.why for entry in result.record if entry.rule == "merge_clips")


def test_a_scale_and_bias_between_two_stays() -> None:
    graph = of_one(
        lambda g, x: dg.clip(dg.clip(x, min=0, max=6), min=0, max=1, scale_bias={"scale": 2, "bias": 0}),
        samples("float32"),
    )
    assert "lie between" in refusal(fused(graph, *RULES), "merge_clips")


def test_two_tensors_are_no_clip() -> None:
    graph = of_one(lambda g, x: dg.max(x, dg.negate(x)), samples("float32"))
    assert fused(graph, *RULES).record == ()


# Integers.


def integers(dtype: str) -> Any:
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    return np.array([[[[low, low + 1, 0, 1, 5, 100, high - 1, high]]]], dtype)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_integers_are_exact(dtype: str, device: DeviceName) -> None:
    high = np.iinfo(dtype).max
    x = integers(dtype)
    builds: list[Build] = [
        lambda g, x: dg.max(x, 5),
        lambda g, x: dg.min(x, 5),
        lambda g, x: dg.min(dg.max(x, 1), 100),
        lambda g, x: dg.max(dg.min(x, high - 1), 3),
    ]
    for build in builds:
        graph = of_one(build, x)
        assert operators(fused(graph, *RULES)) in (["threshold"], ["clip"], ["clip1"])
        ((got, expected),) = results(graph, {"x": x}, *RULES, device=device)
        assert_same(got, expected)


def test_bounds_beyond_float32_are_the_type_s_own(device: DeviceName) -> None:
    x = integers("int32")
    graph = of_one(lambda g, x: dg.max(x, 2**24 + 1), x)
    assert operator(fused(graph, *RULES)).name == "clip1"
    ((got, _),) = results(graph, {"x": x}, *RULES, device=device)
    assert got.min() == 2**24 + 1
    below = fused(of_one(lambda g, x: dg.max(x, 2**24 + 1), x, target="4.1"), *RULES)
    assert "clip1" in refusal(below, "number_to_clip")


def test_signed_integers_have_a_relu(device: DeviceName) -> None:
    x = integers("int32")
    graph = of_one(lambda g, x: dg.max(x, 0), x)
    assert operator(fused(graph, *RULES)).name == "activation_relu"
    ((got, expected),) = results(graph, {"x": x}, *RULES, device=device)
    assert_same(got, expected)
    assert operator(fused(of_one(lambda g, x: dg.max(x, 0), integers("uint32")), *RULES)).name == "threshold"


STEPS = st.lists(
    st.tuples(st.sampled_from(["max", "min", "clip", "threshold", "relu"]), st.integers(-4, 4)), max_size=6
)


@given(STEPS, st.sampled_from(["float32", "float16", "int8", "int32"]))
def test_any_chain(steps: list[tuple[str, int]], dtype: str) -> None:
    """Any chain becomes at most one operator, and gives the same numbers."""
    makes: dict[str, Callable[[Any, int], Any]] = {
        "max": dg.max,
        "min": dg.min,
        "clip": lambda x, bound: dg.clip(x, min=-bound, max=bound),
        "threshold": lambda x, bound: dg.threshold(x, min=bound),
        "relu": lambda x, bound: dg.activation_relu(x),
    }

    def build(_: dg.Graph, x: dg.Value) -> dg.Value:
        for kind, bound in steps:
            x = makes[kind](x, bound)
        return x if steps else dg.identity(x)

    x = np.arange(-8, 9).astype(dtype)[None, None, None]
    graph = of_one(build, x)
    assert len(operators(fused(graph, *RULES))) == 1
    ((got, expected),) = results(graph, {"x": x}, *RULES)
    np.testing.assert_array_equal(got, expected)


# Together with other nodes.


@pytest.mark.usefixtures("directml_path")
def test_dispatches() -> None:
    x = samples("float32")
    builds: list[Build] = [
        lambda g, x: dg.min(dg.max(x, fill(g, x, 0)), fill(g, x, 6)),
        lambda g, x: dg.min(dg.max(x, 0), 6),
        lambda g, x: dg.min(dg.max(x * fill(g, x, 2) + fill(g, x, 0.5), fill(g, x, 0)), fill(g, x, 6)),
    ]
    for build in builds:
        assert dispatches(of_one(build, x), {"x": x}) == 1
        assert dispatches(of_one(build, x), {"x": x}, fuse=False) >= 4


def test_the_whole_pipeline_agrees() -> None:
    result = fused(of_one(lambda g, x: dg.min(dg.max(x * 2 + 0.5, 0), 6), samples("float32")))
    found = operator(result)
    assert (found.name, attributes(found)) == ("clip", {"min": 0, "max": 6})
    assert (found.scale_bias.scale, found.scale_bias.bias) == (2, 0.5)
    assert {"merge_clips", "absorb_scale_bias"} <= set(applied(result))
