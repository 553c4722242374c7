"""Gradients of the user's own: the rule counts, and nothing is lost beside it."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from support.problems import raises

import dmlgraph as dg

X = np.array([0.3, -1.2, 2.6], np.float32)
custom: Any = dg.custom_gradient  # for rules and functions that are refused


def total(x: dg.Value) -> dg.Value:
    return dg.reduce(x, function="sum")


def run(g: dg.Graph, **values: dg.Value) -> dict[str, Any]:
    for name, value in values.items():
        g.output(name, value)
    return dict(g.compile("cpu").run({node.name: X for node in g.inputs}))


@pytest.fixture
def g() -> dg.Graph:
    return dg.Graph("g")


@pytest.fixture
def x(g: dg.Graph) -> dg.Value:
    return g.input("x", sizes=[3], dtype="float32")


def test_a_rule_for_several_inputs_and_outputs(g: dg.Graph, x: dg.Value) -> None:
    """Each input gets what the rule says, in place of what the nodes would give; the way goes on before it."""
    seen: list[Any] = []

    def rule(inputs: list[dg.Value], outputs: list[dg.Value], gradients: list[Any]) -> list[dg.Value | None]:
        seen.append((len(inputs), len(outputs)))
        return [gradients[0] * inputs[1], gradients[1] * outputs[0]]

    @dg.custom_gradient(rule)
    def both(a: dg.Value, b: dg.Value, *, power: float) -> list[dg.Value]:
        return [dg.pow(dg.exp(a), power), b + 1]

    y = g.input("y", sizes=[3], dtype="float32")
    first, second = both(x * 2, y, power=1)
    assert first.node.startswith("both/")
    dx, dy = dg.gradient(total(first * 3 + second * 5), [x, y])
    results = run(g, dx=dx, dy=dy)
    np.testing.assert_allclose(results["dx"], 2 * 3 * X, rtol=1e-6)
    np.testing.assert_allclose(results["dy"], 5 * np.exp(2 * X), rtol=1e-5)
    assert seen == [(2, 2)]


def test_an_output_without_a_gradient_has_zeros(g: dg.Graph, x: dg.Value) -> None:
    @dg.custom_gradient(lambda inputs, outputs, gradients: [gradients[0]])
    def two(a: dg.Value) -> list[dg.Value]:
        return [a * 7, a * 2]

    (dx,) = dg.gradient(total(two(x)[1]), [x])
    np.testing.assert_array_equal(run(g, dx=dx)["dx"], np.zeros(3))


def test_the_gradient_reversed(g: dg.Graph, x: dg.Value) -> None:
    """A function may return what it is given; readers beside it keep their gradients."""

    @dg.custom_gradient(lambda inputs, outputs, gradients: [-each for each in gradients if each is not None])
    def mirrored(a: dg.Value) -> dg.Value:
        return a

    (dx,) = dg.gradient(total(mirrored(x) * 2 + x * 5), [x])
    np.testing.assert_array_equal(run(g, dx=dx)["dx"], np.full(3, 3))


def test_quantization_straight_through(g: dg.Graph, x: dg.Value) -> None:
    """The gradient passes bytes as if they were not there: it is that of the square at the quantized number."""
    scale, zero = g.constant("scale", [0.5], dtype="float32"), g.constant("zero", [0], dtype="int8")

    @dg.straight_through
    def quantized(a: dg.Value) -> dg.Value:
        narrow = dg.quantize_linear(a, scale, zero, dtype="int8")
        return dg.dequantize_linear(narrow, scale, zero)

    y = quantized(x)
    (dx,) = dg.gradient(total(y * y), [x])
    results = run(g, y=y, dx=dx)
    np.testing.assert_array_equal(results["y"], [0.5, -1, 2.5])
    np.testing.assert_array_equal(results["dx"], [1, -2, 5])


def test_a_rule_in_a_rule(g: dg.Graph, x: dg.Value) -> None:
    """The outer one counts."""
    inner = dg.custom_gradient(lambda inputs, outputs, gradients: [None])(dg.exp)
    outer = dg.custom_gradient(lambda inputs, outputs, gradients: [inputs[0]])(lambda a: inner(a) * 2)
    (dx,) = dg.gradient(total(outer(x)), [x])
    np.testing.assert_array_equal(run(g, dx=dx)["dx"], X)


def test_a_rule_is_differentiated_too(g: dg.Graph, x: dg.Value) -> None:
    """The rule says x², so the second derivative is 2 x."""
    own = dg.custom_gradient(lambda inputs, outputs, gradients: [inputs[0] * inputs[0]])(dg.sin)
    (first,) = dg.gradient(total(own(x)), [x])
    (second,) = dg.gradient(total(first), [x])
    np.testing.assert_allclose(run(g, second=second)["second"], 2 * X, rtol=1e-6)


def test_copies_keep_the_rule() -> None:
    g = dg.Graph("g", dims={"n": 2})
    x = g.input("x", sizes=["n"], dtype="float32")
    dg.custom_gradient(lambda inputs, outputs, gradients: [inputs[0] * 7])(dg.exp)(x)
    for other in (g.with_dims({"n": 3}), copy.deepcopy(g)):
        x = other.value("x")
        loss = total(other.value("exp/exp"))
        (dx,) = dg.gradient(loss, [x])
        other.output("dx", dx)
        array = np.ones(x.sizes, np.float32)
        np.testing.assert_array_equal(other.compile("cpu").run({"x": array})["dx"], array * 7)


def test_rules_of_removed_nodes_go_too(g: dg.Graph, x: dg.Value) -> None:
    """The names of these nodes are free for others."""

    def rule(inputs: list[dg.Value], outputs: list[dg.Value], gradients: list[Any]) -> list[dg.Value | None]:
        dg.straight_through(dg.round)(outputs[0])  # which nothing reads
        return gradients[: len(inputs)]

    y = dg.custom_gradient(rule)(dg.exp)(x)
    dg.gradient(total(y), [x])
    assert [own.name for own in g.own_gradients] == ["exp"]


def _past(x: dg.Value) -> Any:
    """A function that reads what it is not given."""
    hidden = x * 2
    return total(custom(lambda i, o, g: g)(lambda a: a + hidden)(x)), x


def _leaking(x: dg.Value) -> Any:
    """A value inside that is read outside."""
    inner: list[dg.Value] = []

    def leak(a: dg.Value) -> dg.Value:
        inner.append(dg.exp(a))
        return inner[0] * 2

    return total(custom(lambda i, o, g: g)(leak)(x) + inner[0]), x


def _inside(x: dg.Value) -> Any:
    """A value inside by which the loss is differentiated."""
    inner: list[dg.Value] = []

    def leak(a: dg.Value) -> dg.Value:
        inner.append(dg.exp(a))
        return inner[0] * 2

    return total(custom(lambda i, o, g: g)(leak)(x)), inner[0]


def _by(rule: Any) -> Any:
    return lambda x: (total(custom(rule)(dg.exp)(x)), x)


@pytest.mark.parametrize(
    ("build", "code", "node", "field"),
    [
        (_past, "no-derivative", "lambda/add", None),
        (_leaking, "no-derivative", "add", None),
        (_inside, "no-derivative", None, "values.0"),
        (_by(lambda i, o, g: g[0]), "count", None, "gradients"),
        (_by(lambda i, o, g: [*g, None]), "count", None, "gradients"),
        (_by(lambda i, o, g: [3]), "not-a-value", None, "gradients.0"),
        (_by(lambda i, o, g: [g[0].broadcast_to(2, 3).reshape(6)]), "sizes", None, "gradients.0"),
        (_by(lambda i, o, g: [dg.cast(g[0], dtype="float16")]), "sizes", None, "gradients.0"),
        (custom(lambda i, o, g: g)(lambda a: 3), "kind", "lambda", None),
        (lambda x: custom(lambda i, o, g: g)(lambda a: a)(3), "missing", "lambda", None),
    ],
)
def test_refused(x: dg.Value, build: Any, code: str, node: str | None, field: str | None) -> None:
    def differentiate() -> None:
        loss, value = build(x)
        dg.gradient(loss, [value])

    with raises(dg.DmlGraphError, code, node=node, field=field):
        differentiate()
