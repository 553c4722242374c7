"""The derivatives of operators: each agrees with differences in float64."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Mapping

import numpy as np
import pytest
from support.derivatives import element_wise, layers, movement, sequences
from support.derivatives.case import Array, Case, single
from support.differences import Float64, operators_in, slope

import dmlgraph as dg
from dmlgraph.base.tensor import DataType
from dmlgraph.operators import REGISTRY, Operator

CASES = [*element_wise.CASES, *movement.CASES, *layers.CASES, *sequences.CASES]


POINTS = 20


def float_inputs(inputs: Mapping[str, Array]) -> list[str]:
    return [name for name, array in inputs.items() if array.dtype.kind == "f"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_derivative(case: Case) -> None:
    """At random points, along random directions of all inputs together, and as the device `cpu` computes it."""
    graph, loss = case.graph()
    graph.output("loss", loss)
    inputs = case.inputs
    names = float_inputs(inputs)
    gradients = dict(zip(names, dg.gradient(loss, [graph.value(name) for name in names]), strict=True))
    for name, gradient in gradients.items():
        assert gradient.sizes == inputs[name].shape
        graph.output(f"gradient of {name}", gradient)
    assert not [each for each in graph.warnings() if each.code == "unused-node"]
    compute, forward = Float64(graph), Float64(graph, loss)
    random = np.random.default_rng(7)
    tried = 0
    for point in case.points(2 * POINTS):
        directions = {name: np.asarray(random.uniform(-1, 1, point[name].shape)) for name in names}
        wanted = slope(forward, loss, point, directions)
        if wanted is None:
            continue
        values = compute(point)
        parts = [values[gradients[name].node, gradients[name].port] * directions[name] for name in names]
        size = sum(float(np.abs(each).sum()) for each in parts)
        np.testing.assert_allclose(sum(float(each.sum()) for each in parts), wanted, 1e-4, 1e-4 * (1 + size))
        tried += 1
        if tried == POINTS:
            break
    assert tried == POINTS
    values = compute(inputs)
    results = graph.compile("cpu", threads=1).run({name: single(array) for name, array in inputs.items()})
    for name, gradient in gradients.items():
        expected = values[gradient.node, gradient.port]
        np.testing.assert_allclose(results[f"gradient of {name}"], expected, 1e-3, 1e-4, err_msg=name)


@pytest.mark.parametrize("case", [*movement.CASES, *layers.CASES, *sequences.CASES], ids=lambda case: case.name)
def test_derivative_on_directml(case: Case, directml_path: pathlib.Path) -> None:
    """Where the real library has a gradient operator of its own, it is the derivative."""
    del directml_path
    graph, loss = case.graph()
    inputs = case.inputs
    names = float_inputs(inputs)
    gradients = dict(zip(names, dg.gradient(loss, [graph.value(name) for name in names]), strict=True))
    values = Float64(graph)(inputs)
    for name, gradient in gradients.items():
        graph.output(name, gradient)
    results = graph.compile("directml:software").run({name: single(array) for name, array in inputs.items()})
    for name, gradient in gradients.items():
        expected = values[gradient.node, gradient.port]
        np.testing.assert_allclose(results[name], expected, 2e-3, 2e-4, err_msg=name)


# Those whose derivative has no derivative: DirectML's own gradient operators of these.
ONCE = ("batch_normalization", "local_response_normalization 3", "roi_align")
TWICE = [case for case in (*element_wise.CASES, *movement.CASES, *layers.CASES) if not case.name.startswith(ONCE)]


@pytest.mark.parametrize("case", TWICE, ids=lambda case: case.name)
def test_second_derivative(case: Case) -> None:
    """Along one direction: that of the gradients' sum, weighted, against differences of it."""
    graph, loss = case.graph()
    inputs = case.inputs
    names = float_inputs(inputs)
    values = [graph.value(name) for name in names]
    random = np.random.default_rng(9)
    parts = []
    for index, gradient in enumerate(dg.gradient(loss, values)):
        weights = graph.constant(f"second{index}", random.uniform(0.5, 1.5, gradient.sizes).astype(np.float32))
        parts.append(dg.reduce(gradient * weights, function="sum").reshape(1))
    slope = functools.reduce(lambda a, b: a + b, parts)
    directions = {name: random.uniform(-1, 1, inputs[name].shape) for name in names}
    depends = [value for value in values if value.node in graph.upstream(slope.node)]
    found = 0.0
    computed = dg.gradient(slope, depends)
    results = Float64(graph)(inputs)
    for value, gradient in zip(depends, computed, strict=True):
        found += float((results[gradient.node, gradient.port] * directions[value.node]).sum())
    assert np.isfinite(found)
    again, step = Float64(graph, slope), 1e-4
    ends = [
        again({**inputs, **{name: inputs[name] + sign * step * directions[name] for name in names}}) for sign in (1, -1)
    ]
    up, down = (float(each[slope.node, slope.port].reshape(())) for each in ends)
    np.testing.assert_allclose(found, (up - down) / (2 * step), 2e-3, 2e-3)


def gives_floats(operator: type[Operator]) -> bool:
    """Whether an output may be a float at the newest level."""
    support = operator.support()
    outputs = {operator.fields[field].name for field in operator.output_fields}
    rows = support.levels[max(support.levels)]
    return any(row.takes(dtype) for row in rows if row.tensor in outputs for dtype in DataType if dtype.is_float)


def test_every_operator_has_a_derivative_that_is_tried_or_says_why_not() -> None:
    tried = set[str]().union(*(operators_in(case.graph()[0]) for case in CASES))
    for name, operator in REGISTRY.items():
        if operator.has_derivative():
            assert name in tried, f"{name} is not tried"
        elif operator.is_source() or not gives_floats(operator):
            continue  # no gradient comes here
        else:
            assert operator.no_derivative != Operator.no_derivative, name
