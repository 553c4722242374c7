"""Bindings: every tensor of an operator by its port, with arrays and absent tensors."""

from __future__ import annotations

import random

import pytest

import dmlgraph as dg
from dmlgraph.graph.nodes import OperatorNode
from dmlgraph.operators import REGISTRY, Operator
from dmlgraph.operators.catalog.examples import example
from dmlgraph.operators.declaration.fields import Role


def made(name: str) -> Operator:
    """The operator of this name in its example."""
    nodes = dg.loads(example(REGISTRY[name])).nodes
    return next(node.operator for node in nodes if isinstance(node, OperatorNode) and node.operator.name == name)


@pytest.mark.parametrize("name", REGISTRY)
def test_bindings_name_every_tensor_once_by_its_port(name: str) -> None:
    operator = made(name)
    descs = {Role.INPUT: operator.input_descs, Role.OUTPUT: operator.output_descs}
    for role in Role:
        bound = operator.bindings(role)
        assert [each.port for each in bound] == list(range(len(bound)))
        assert tuple(each.desc for each in bound) == descs[role]
        for each in bound:
            value = operator.tensors[each.field]
            assert each.desc is (value if each.place is None else value[each.place])
            assert each.path == (each.field if each.place is None else f"{each.field}.{each.place}")
        values = {each.port: each.desc for each in bound}
        assert operator.tensors.items() >= operator.by_field(role, values).items()


@pytest.mark.parametrize("name", REGISTRY)
def test_only_the_inputs_that_are_named_change(name: str) -> None:
    operator = made(name)
    choose = random.Random(name)
    present = [each for each in operator.bindings(Role.INPUT) if each.desc is not None]
    ports = choose.sample([each.port for each in present], choose.randint(0, len(present)))
    other = dg.TensorDesc(dtype="int8", sizes=[3])
    changed = operator.with_inputs(dict.fromkeys(ports, other))
    for before, after in zip(operator.bindings(Role.INPUT), changed.bindings(Role.INPUT), strict=True):
        assert after == (before._replace(desc=other) if before.port in ports else before)
    assert changed.attributes == operator.attributes
    assert changed.output_descs == operator.output_descs


@pytest.mark.parametrize("name", REGISTRY)
def test_only_the_last_field_is_an_array(name: str) -> None:
    """So the index of a field is its port; rules rely on it."""
    for arrays in (REGISTRY[name].input_arrays, REGISTRY[name].output_arrays):
        assert not any(list(arrays.values())[:-1])
