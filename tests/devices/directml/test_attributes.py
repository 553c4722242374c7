"""Which attributes DirectML refuses: dmlgraph refuses exactly the same at the library's feature level."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import pytest
from support.agreement import LIBRARY_LEVEL

import dmlgraph as dg
from dmlgraph.compiler.desc import GraphDesc, OperatorDescNode
from dmlgraph.compiler.lowering import lower
from dmlgraph.devices.directml.device import DirectMLDevice
from dmlgraph.devices.directml.errors import DirectMLError
from dmlgraph.operators import REGISTRY, Operator
from dmlgraph.operators.catalog.examples import example
from dmlgraph.operators.declaration.fields import Kind, ScaleBias

NUMBERS = (
    *(math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 0.5, 2.0),
    *(2.0**-23, 2.0**-24, 1e-8, 1e-40, -1e-40, 3e38, -3e38, 65504.0, 1e5),
)
FLOATS = (Kind.FLOAT, Kind.FLOATS, Kind.SCALE_BIAS)


WITH_FLOATS = [
    operator
    for operator in REGISTRY.values()
    if operator.support().introduced <= LIBRARY_LEVEL and any(member.kind in FLOATS for member in operator.members)
]


def values(kind: Kind, given: Any) -> Iterator[Any]:
    """A field's values, each with one number replaced."""
    for number in NUMBERS:
        if kind is Kind.FLOAT:
            yield number
        elif kind is Kind.FLOATS:
            yield from ((*given[:place], number, *given[place + 1 :]) for place in range(len(given)))
        else:
            yield ScaleBias(scale=number, bias=0.5)
            yield ScaleBias(scale=2.0, bias=number)


def takes(device: DirectMLDevice, desc: GraphDesc) -> bool:
    try:
        with device.compile(desc, reason="asked for"):
            return True
    except DirectMLError as error:
        if error.call != "CreateOperator":
            raise
        return False


def is_legal(operator: Operator, device: DirectMLDevice, **changes: Any) -> bool:
    fields = {field: getattr(operator, field) for field in type(operator).fields}
    try:
        return not type(operator)(**fields | changes).level_problems(device.level)
    except dg.OperatorError as error:
        if str(error.field).partition(".")[0] not in changes:
            raise
        return False


def nodes(desc: GraphDesc, operator: type[Operator]) -> tuple[int, Operator]:
    """The index of the operator's node, and the operator with its fields."""
    found = ((i, node.operator) for i, node in enumerate(desc.nodes) if isinstance(node, OperatorDescNode))
    return next((index, each) for index, each in found if type(each) is operator)


@pytest.mark.parametrize("operator", WITH_FLOATS, ids=lambda operator: operator.name)
def test_floats_are_refused_where_directml_refuses_them(operator: type[Operator], directml: DirectMLDevice) -> None:
    desc = lower(dg.loads(example(operator)), directml.level)
    index, node = nodes(desc, operator)
    for member in operator.members:
        if member.field is None or member.kind not in FLOATS:
            continue
        for value in values(member.kind, getattr(node, member.field)):
            # Unchecked, as the device would get it if dmlgraph accepted it.
            changed = node.replace(**{member.field: value})
            everything = [*desc.nodes]
            everything[index] = OperatorDescNode(desc.nodes[index].name, changed)
            taken = takes(directml, dataclasses.replace(desc, nodes=tuple(everything)))
            assert is_legal(node, directml, **{member.field: value}) == taken, f"{member.field} {value}: {taken}"
