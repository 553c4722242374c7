"""The table of layouts that DirectML does not take."""

from __future__ import annotations

import pathlib
import re

import pytest

import dmlgraph as dg
from dmlgraph.base.tensor import TensorDesc
from dmlgraph.graph.nodes import OperatorNode
from dmlgraph.operators import REGISTRY, Operator
from dmlgraph.operators.catalog.examples import example
from dmlgraph.operators.declaration.fields import Role
from dmlgraph.operators.layouts import MEASURED, REFUSED, is_packed, only_repeats, refusal, repeats

OPERATORS = {operator.dml: operator for operator in REGISTRY.values()}
LATER = [operator for operator in REGISTRY.values() if operator.support().introduced > MEASURED]


def made(operator: type[Operator]) -> Operator:
    """The operator of its example."""
    nodes = dg.loads(example(operator)).nodes
    return next(node.operator for node in nodes if isinstance(node, OperatorNode) and type(node.operator) is operator)


def desc(sizes: list[int], strides: list[int] | None = None) -> TensorDesc:
    return TensorDesc(dtype="uint32", sizes=sizes, strides=strides)


@pytest.mark.parametrize(
    ("sizes", "strides", "packed", "repeated", "only"),
    [
        ([2, 3], None, True, False, True),
        ([2, 3], [3, 1], True, False, True),
        ([2, 1, 3], [3, 99, 1], True, False, True),
        ([2, 1, 3], [3, 0, 1], True, False, True),
        ([1, 1], [0, 7], True, False, True),
        ([2, 3], [1, 2], False, False, False),
        ([2, 3], [4, 1], False, False, False),
        ([2, 3], [0, 1], False, True, True),
        ([2, 3], [1, 0], False, True, True),
        ([2, 3], [0, 0], False, True, True),
        ([2, 3], [0, 2], False, True, False),
        ([2, 4, 3], [1, 0, 2], False, True, False),
    ],
)
def test_layouts(sizes: list[int], strides: list[int] | None, packed: bool, repeated: bool, only: bool) -> None:
    tensor = desc(sizes, strides)
    assert (is_packed(tensor), repeats(tensor), only_repeats(tensor)) == (packed, repeated, only)


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_packed_tensors_are_never_refused(name: str) -> None:
    operator = made(REGISTRY[name])
    for role in Role:
        for each in operator.bindings(role):
            for tensor in (desc([2, 3]), desc([2, 1, 3], [3, 5, 1]), desc([1], [0])):
                assert refusal(operator, each.path, tensor) is None


def test_scatter_nd_reads_its_indices_through_strides_above_zero() -> None:
    operator = made(OPERATORS["SCATTER_ND"])
    assert refusal(operator, "indices", desc([2, 2], [0, 1])) == (
        "SCATTER_ND does not read its indices through strides of zero"
    )
    assert refusal(operator, "indices", desc([2, 2], [1, 2])) is None
    assert refusal(operator, "updates", desc([2, 2], [0, 1])) is None


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
        changed = operator.model_copy(
            update=operator.by_field(Role.OUTPUT, {**dict(enumerate(operator.output_descs)), binding.port: given})
        )
        assert [each.code for each in changed._overlapping_outputs()] == ["shared-memory"]


def test_the_documentation_lists_the_table() -> None:
    text = (pathlib.Path(__file__).parents[2] / "docs" / "measured.md").read_text(encoding="utf-8")
    section = text.partition("## Strides\n")[2].partition("\n## ")[0].partition("What it costs")[0]
    rows = re.findall(r"^\| ([A-Z][A-Z0-9_]+) \| `(\w+)` \|", section, re.M)
    assert set(rows) == set(REFUSED)
    levels = {str(operator.support().introduced) for operator in LATER}
    assert f"those of levels {' and '.join(sorted(levels))}" in section


def test_the_table_names_tensors_that_exist() -> None:
    for dml, field in REFUSED:
        assert field in OPERATORS[dml].input_fields + OPERATORS[dml].output_fields
