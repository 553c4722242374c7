"""Formulas of several operators become DirectML's single operator."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.operators.harness import assert_same, ulps
from support.passes.fusing import (
    Array,
    dispatches,
    fused,
    of_one,
    operator,
    operators,
    refusal,
    results,
    samples,
)

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName

Build = Callable[[dg.Graph, dg.Value], dg.Value]
ROOT = math.sqrt(0.5)


def fill(graph: dg.Graph, x: dg.Value, value: float) -> dg.Value:
    return graph.fill_value_constant(sizes=x.desc.sizes, dtype=x.desc.dtype, value=value)


def sigmoid(x: Array) -> Array:
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-x)))


def unit(x: Array) -> Array:
    return np.clip(x, 0, 1)


erf = np.vectorize(math.erf, otypes=[float])


# The rule, the graph, its attributes, and its function in float64.
FOUND: dict[str, tuple[str, Build, dict[str, float], Callable[[Array], Array]]] = {
    "swish": (
        "swish",
        lambda g, x: x * dg.activation_sigmoid(x),
        {"sigmoid_input_scale": 1},
        lambda x: x * sigmoid(x),
    ),
    "swish of a multiple": (
        "swish",
        lambda g, x: dg.activation_sigmoid(1.5 * x) * x,
        {"sigmoid_input_scale": 1.5},
        lambda x: x * sigmoid(1.5 * x),
    ),
    "swish of a fill": (
        "swish",
        lambda g, x: x * dg.activation_sigmoid(x * fill(g, x, -2)),
        {"sigmoid_input_scale": -2},
        lambda x: x * sigmoid(-2 * x),
    ),
    "hard swish": (
        "hard_swish",
        lambda g, x: x * dg.activation_hard_sigmoid(x, alpha=0.25, beta=0.5),
        {"alpha": 0.25, "beta": 0.5},
        lambda x: x * unit(0.25 * x + 0.5),
    ),
    "hard swish by a clip": (
        "hard_swish",
        lambda g, x: dg.clip(x * 0.25 + 0.5, min=0, max=1) * x,
        {"alpha": 0.25, "beta": 0.5},
        lambda x: x * unit(0.25 * x + 0.5),
    ),
    "hard swish by a clip of a line": (
        "hard_swish",
        lambda g, x: dg.clip(x, min=0, max=1, scale_bias={"scale": 0.25, "bias": 0.5}) * x,
        {"alpha": 0.25, "beta": 0.5},
        lambda x: x * unit(0.25 * x + 0.5),
    ),
    "hard swish by a clip with bounds of the tensor's type": (
        "hard_swish",
        lambda g, x: x * dg.clip1(x + 3, min=0, max=6) / 6,
        {"alpha": float(np.float32(1 / 6)), "beta": 0.5},
        lambda x: x * unit(x / 6 + 0.5),
    ),
    "hard swish by 6": (
        "hard_swish",
        lambda g, x: x * dg.clip(x + 3, min=0, max=6) / 6,
        {"alpha": float(np.float32(1 / 6)), "beta": 0.5},
        lambda x: x * unit(x / 6 + 0.5),
    ),
    "hard swish by a sixth": (
        "hard_swish",
        lambda g, x: x * (dg.clip(x + fill(g, x, 3), min=0, max=6) / fill(g, x, 6)),
        {"alpha": float(np.float32(1 / 6)), "beta": 0.5},
        lambda x: x * unit(x / 6 + 0.5),
    ),
    "gelu": ("gelu", lambda g, x: 0.5 * x * (1 + dg.erf(x * ROOT)), {}, lambda x: x / 2 * (1 + erf(x * ROOT))),
    "gelu, halved last": (
        "gelu",
        lambda g, x: x * (dg.erf(x / math.sqrt(2)) + 1) * 0.5,
        {},
        lambda x: x / 2 * (1 + erf(x * ROOT)),
    ),
    "gelu, halved within": (
        "gelu",
        lambda g, x: x * ((dg.erf(x, scale_bias={"scale": ROOT, "bias": -0.0}) + 1) / 2),
        {},
        lambda x: x / 2 * (1 + erf(x * ROOT)),
    ),
    "gelu by fills": (
        "gelu",
        lambda g, x: x * fill(g, x, 0.5) * (fill(g, x, 1) + dg.erf(x / fill(g, x, math.sqrt(2)))),
        {},
        lambda x: x / 2 * (1 + erf(x * ROOT)),
    ),
    "leaky relu": (
        "leaky_relu",
        lambda g, x: dg.max(x, 0.1 * x),
        {"alpha": float(np.float32(0.1))},
        lambda x: np.where(x >= 0, x, np.float64(np.float32(0.1)) * x),
    ),
    "leaky relu by a minimum": (
        "leaky_relu",
        lambda g, x: dg.min(x * fill(g, x, 3), x),
        {"alpha": 3},
        lambda x: np.where(x >= 0, x, 3 * x),
    ),
}
# In ULP of x: the error with exact functions in float32, and with DirectML's erf.
OF_X = {"hard_swish": (2, 2), "gelu": (2, 8)}


def assert_within(name: str, got: Array, other: Array, x: Array, device: DeviceName) -> None:
    rule = FOUND[name][0]
    finite = np.isfinite(x)
    np.testing.assert_array_equal(np.isnan(got[~finite]), np.isnan(other[~finite]))
    got, other, x = got[finite], other[finite], x[finite]
    if rule in OF_X:
        bound = OF_X[rule][device != "reference"]
        unit_of_x = np.spacing(np.abs(x)).astype(np.float64)
        assert (np.abs(got.astype(np.float64) - other.astype(np.float64)) <= bound * unit_of_x).all()
    else:
        # For swish: 1/2 ULP of sigmoid's argument, which is at most 2x, is |x| ULP of the result.
        bounds = np.zeros_like(x) if rule == "leaky_relu" or device != "reference" else 2 + 2 * np.abs(x)
        assert (ulps(got, other.astype(got.dtype)) <= bounds).all()


@pytest.mark.parametrize("name", FOUND)
def test_found(name: str, device: DeviceName) -> None:
    """The operator: fused and unfused agree within the bound, and both are close to the exact function."""
    rule, build, attributes, meaning = FOUND[name]
    x = samples("float32")
    graph = of_one(build, x)
    result = fused(graph, rule)
    found = operator(result)
    assert found.name == f"activation_{rule}"
    assert found.attributes == attributes
    for got, expected in results(graph, {"x": x}, rule, device=device):
        assert_within(name, got, expected, x, device)
        finite = np.isfinite(x)
        wide = x[finite].astype(np.float64)
        error = np.abs(got[finite].astype(np.float64) - meaning(wide))
        assert (error <= 1e-6 * np.abs(wide)).all()


@pytest.mark.parametrize("name", FOUND)
def test_found_in_float16(name: str, device: DeviceName) -> None:
    rule, build, _, meaning = FOUND[name]
    x = samples("float16")
    graph = of_one(build, x)
    assert operator(fused(graph, rule)).name == f"activation_{rule}"
    finite = np.isfinite(x)
    wide = x[finite].astype(np.float64)
    for got, expected in results(graph, {"x": x}, rule, device=device):
        for each in (got, expected):
            assert (np.abs(each[finite].astype(np.float64) - meaning(wide)) <= 4e-3 * np.abs(wide) + 1e-6).all()


@pytest.mark.parametrize("name", FOUND)
def test_found_after_the_other_rules(name: str) -> None:
    """The formula is matched whatever earlier rules did with the numbers."""
    rule, build, _, _ = FOUND[name]
    assert operators(fused(of_one(build, samples("float32")))) == [f"activation_{rule}"]


@pytest.mark.parametrize("rule", ["swish", "hard_swish", "gelu", "leaky_relu"])
def test_of_what_is_a_line_itself(rule: str) -> None:
    """x is recognised if an affine map computes it from another value."""
    builds: dict[str, Build] = {
        "swish": lambda g, x: x * dg.activation_sigmoid(x),
        "hard_swish": lambda g, x: x * dg.activation_hard_sigmoid(x, alpha=0.25, beta=0.5),
        "gelu": lambda g, x: x * 0.5 * (1 + dg.erf(x * ROOT)),
        "leaky_relu": lambda g, x: dg.max(x, x * 0.25),
    }
    graph = of_one(lambda g, x: builds[rule](g, x * 3 + 1), samples("float32"))
    assert f"activation_{rule}" in operators(fused(graph, rule))


def two_sigmoids(_: dg.Graph, x: dg.Value) -> dg.Value:
    gate = dg.activation_sigmoid(x)
    return dg.max(x * gate, gate)


NOT_FOUND: dict[str, tuple[str, Build]] = {
    "another x": ("swish", lambda g, x: dg.abs(x) * dg.activation_sigmoid(x)),
    "a shifted sigmoid": ("swish", lambda g, x: x * dg.activation_sigmoid(x + 1)),
    "another half": ("gelu", lambda g, x: 0.6 * x * (1 + dg.erf(x * ROOT))),
    "another root": ("gelu", lambda g, x: 0.5 * x * (1 + dg.erf(x * 0.7))),
    "another one": ("gelu", lambda g, x: 0.5 * x * (1.1 + dg.erf(x * ROOT))),
    "another height": ("hard_swish", lambda g, x: x * dg.clip(x + 3, min=0, max=6) / 5),
    "another floor": ("hard_swish", lambda g, x: x * dg.clip(x + 3, min=1, max=6) / 6),
    "another line": ("leaky_relu", lambda g, x: dg.max(x, x * 0.5 + 1)),
}


@pytest.mark.parametrize("name", NOT_FOUND)
def test_not_found(name: str) -> None:
    rule, build = NOT_FOUND[name]
    assert fused(of_one(build, samples("float32")), rule).record == ()


def test_what_is_read_elsewhere_stays() -> None:
    assert "has other readers" in refusal(fused(of_one(two_sigmoids, samples("float32")), "swish"), "swish")


def test_a_slope_that_selects_the_other_branch() -> None:
    for build in (lambda g, x: dg.max(x, x * 2), lambda g, x: dg.min(x, x * 0.5), lambda g, x: dg.max(x, x * -1)):
        result = fused(of_one(build, samples("float32")), "leaky_relu")
        assert "selects the other branch" in refusal(result, "leaky_relu")


@pytest.mark.parametrize(
    ("rule", "build", "target", "since"),
    [
        ("swish", lambda g, x: x * dg.activation_sigmoid(x), "6.1", "6.2"),
        ("hard_swish", lambda g, x: x * dg.activation_hard_sigmoid(x), "6.1", "6.2"),
        ("gelu", lambda g, x: x * 0.5 * (dg.erf(x * ROOT) + 1), "5.0", "5.1"),
    ],
)
def test_from_their_levels(rule: str, build: Build, target: str, since: str) -> None:
    result = fused(of_one(build, samples("float32"), target=target), rule)
    assert f"appears at {since}" in refusal(result, rule)


# Dispatches.


def sequences(g: dg.Graph, x: dg.Value) -> dg.Value:
    ramp = g.fill_value_sequence(sizes=x.desc.sizes, dtype="float32", value_start=3, value_delta=2)
    return x * ramp + 3 * ramp + 1


def sequences_by_fills(g: dg.Graph, x: dg.Value) -> dg.Value:
    ramp = g.fill_value_sequence(sizes=x.desc.sizes, dtype="float32", value_start=3, value_delta=2)
    return x * ramp + fill(g, x, 3) * ramp + fill(g, x, 1)


@pytest.mark.usefixtures("directml_path")
@pytest.mark.parametrize("build", [sequences, sequences_by_fills])
def test_dispatches_of_sequences(build: Build) -> None:
    x = np.linspace(-2, 2, 24, dtype=np.float32).reshape(1, 1, 4, 6)
    graph = of_one(build, x)
    assert dispatches(graph, {"x": x}) <= 2
    assert dispatches(graph, {"x": x}, fuse=False) >= 5
    ((got, expected),) = results(graph, {"x": x}, device="directml:software")
    assert_same(got, expected)


@pytest.mark.usefixtures("directml_path")
@pytest.mark.parametrize("name", FOUND)
def test_dispatches(name: str) -> None:
    x = samples("float32")
    graph: Any = of_one(FOUND[name][1], x)
    assert dispatches(graph, {"x": x}) == 1
