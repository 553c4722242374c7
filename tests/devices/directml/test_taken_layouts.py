"""The layouts that DirectML does not take, or for which nobody has measured it."""

from __future__ import annotations

import pathlib
import re

import pytest

import dmlgraph as dg
from dmlgraph.base.tensor import TensorDesc
from dmlgraph.devices.directml.layouts import MEASURED, only_repeats, refusal
from dmlgraph.graph.nodes import OperatorNode
from dmlgraph.operators import REGISTRY, Operator
from dmlgraph.operators.catalog.examples import example
from dmlgraph.operators.declaration.fields import Role

OPERATORS = {operator.dml: operator for operator in REGISTRY.values()}
LATER = [operator for operator in REGISTRY.values() if operator.support().introduced > MEASURED]


def made(operator: type[Operator]) -> Operator:
    """The operator of its example."""
    nodes = dg.loads(example(operator)).nodes
    return next(node.operator for node in nodes if isinstance(node, OperatorNode) and type(node.operator) is operator)


def desc(sizes: list[int], strides: list[int] | None = None) -> TensorDesc:
    return TensorDesc(dtype="uint32", sizes=sizes, strides=strides)


@pytest.mark.parametrize(
    ("sizes", "strides", "only"),
    [
        ([2, 3], None, True),
        ([2, 3], [3, 1], True),
        ([2, 1, 3], [3, 99, 1], True),
        ([2, 1, 3], [3, 0, 1], True),
        ([1, 1], [0, 7], True),
        ([2, 3], [1, 2], False),
        ([2, 3], [4, 1], False),
        ([2, 3], [0, 1], True),
        ([2, 3], [1, 0], True),
        ([2, 3], [0, 0], True),
        ([2, 3], [0, 2], False),
        ([2, 4, 3], [1, 0, 2], False),
    ],
)
def test_only_repeated(sizes: list[int], strides: list[int] | None, only: bool) -> None:
    assert only_repeats(desc(sizes, strides)) == only


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_packed_tensors_are_never_refused(name: str) -> None:
    operator = made(REGISTRY[name])
    for role in Role:
        for each in operator.bindings(role):
            for tensor in (desc([2, 3]), desc([2, 1, 3], [3, 5, 1]), desc([1], [0])):
                assert refusal(operator, each.path, tensor) is None


def excluded(operator: Operator, field: str, layout: TensorDesc) -> str | None:
    """Why the operator's own constraints exclude a layout of an input; None if they do not."""
    port = next(each.port for each in operator.bindings(Role.INPUT) if each.field == field)
    problem = next(operator.with_inputs({port: layout}).constraints(), None)
    return None if problem is None else f"{problem.field} {problem.message}"


def test_scatter_nd_reads_its_indices_through_strides_above_zero() -> None:
    operator = made(OPERATORS["SCATTER_ND"])
    indices, updates = operator.input_descs[1:]
    assert indices is not None
    assert updates is not None
    assert excluded(operator, "indices", indices.like(strides=[0, 0, 0, 1])) == (
        "indices.strides must not be zero: DirectML refuses it here"
    )
    assert excluded(operator, "indices", indices.like(strides=[4, 4, 1, 2])) is None
    assert excluded(operator, "updates", updates.like(strides=[0, 0, 0, 0])) is None


@pytest.mark.parametrize("operator", LATER, ids=lambda operator: operator.name)
def test_later_operators_only_broadcast(operator: type[Operator]) -> None:
    one = made(operator)
    for binding in one.bindings(Role.INPUT):
        assert refusal(one, binding.path, desc([2, 3], [0, 1])) is None
        for strides in ([1, 2], [4, 1], [0, 2]):
            assert "has not been measured" in (refusal(one, binding.path, desc([2, 3], strides)) or "")
    for binding in one.bindings(Role.OUTPUT):
        for strides in ([1, 2], [4, 1]):
            assert refusal(one, binding.path, desc([2, 3], strides)) is not None


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_no_output_repeats(name: str) -> None:
    """Strides of zero are refused before DirectML sees them."""
    operator = made(REGISTRY[name])
    for binding in operator.bindings(Role.OUTPUT):
        if binding.desc is None or binding.desc.element_count == 1:
            continue
        given = binding.desc.like(strides=[0] * binding.desc.rank)
        changed = operator.replace(
            **operator.by_field(Role.OUTPUT, {**dict(enumerate(operator.output_descs)), binding.port: given})
        )
        assert [each.code for each in changed._overlapping_outputs()] == ["shared-memory"]


def test_the_documentation_lists_what_is_not_taken() -> None:
    text = (pathlib.Path(__file__).parents[3] / "docs" / "measured.md").read_text(encoding="utf-8")
    section = text.partition("## Strides\n")[2].partition("\n## ")[0].partition("What it costs")[0]
    rows = re.findall(r"^\| ([A-Z][A-Z0-9_]+) \| `(\w+)` \|", section, re.M)
    constrained = {
        (operator.dml, binding.field)
        for operator in map(made, REGISTRY.values())
        for binding in operator.bindings(Role.INPUT)
        if operator.support().introduced <= MEASURED
        and binding.desc is not None
        and binding.desc.element_count > 1
        and excluded(operator, binding.field, binding.desc.like(strides=[0] * binding.desc.rank))
    }
    assert set(rows) == constrained
    levels = {str(operator.support().introduced) for operator in LATER}
    assert f"those of levels {' and '.join(sorted(levels))}" in section
