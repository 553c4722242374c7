"""The derivatives of operators: each agrees with differences in float64."""

from __future__ import annotations

import numpy as np
import pytest
from support.derivatives import element_wise, layers, movement
from support.derivatives.case import Case, single
from support.differences import Float64, differences, operators_in

import dmlgraph as dg
from dmlgraph.operators import REGISTRY

CASES = [*element_wise.CASES, *movement.CASES, *layers.CASES]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_derivative(case: Case) -> None:
    graph, loss = case.graph()
    graph.output("loss", loss)
    inputs = case.inputs
    names = [name for name, array in inputs.items() if array.dtype.kind == "f"]
    gradients = dict(zip(names, dg.gradient(loss, [graph.value(name) for name in names]), strict=True))
    values = Float64(graph)(inputs)
    expected = {}
    for name, gradient in gradients.items():
        assert gradient.sizes == inputs[name].shape
        graph.output(f"gradient of {name}", gradient)
        expected[f"gradient of {name}"] = values[gradient.node, gradient.port]
        by_differences = differences(graph, loss, inputs, name)
        np.testing.assert_allclose(expected[f"gradient of {name}"], by_differences, 1e-4, 1e-4, err_msg=name)
    assert not [each for each in graph.warnings() if each.code == "unused-node"]
    results = graph.compile("cpu", threads=1).run({name: single(array) for name, array in inputs.items()})
    for name, wanted in expected.items():
        np.testing.assert_allclose(results[name], wanted, 1e-3, 1e-4, err_msg=name)


def test_every_derivative_is_tried() -> None:
    tried = set[str]().union(*(operators_in(case.graph()[0]) for case in CASES))
    assert {name for name, each in REGISTRY.items() if each.has_derivative()} <= tried
