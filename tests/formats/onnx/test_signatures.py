"""The signatures of rules are those of their operators' schemas: names of inputs and attributes, and defaults."""

from __future__ import annotations

import functools
import inspect
import math
from typing import Any

import onnx
import onnx_ir as ir
import pytest

from dmlgraph.formats.onnx import checking, table
from dmlgraph.formats.onnx.node import Node
from dmlgraph.formats.onnx.refusals import Refusal

KIND = inspect.Parameter


def parameters(row: table.Row) -> list[inspect.Parameter]:
    """Those of a rule, without the node."""
    return [*inspect.signature(row.rule).parameters.values()][1:]


@functools.cache
def history() -> dict[str, list[Any]]:
    """All schemas of ONNX's own operators, by operator."""
    found: dict[str, list[Any]] = {}
    for each in onnx.defs.get_all_schemas_with_history():
        if not each.domain:
            found.setdefault(each.name, []).append(each)
    return found


def schemas(row: table.Row) -> list[Any]:
    """Those in the opsets of a row."""
    last = row.until or onnx.defs.onnx_opset_version()
    found = history().get(row.operator, [])
    begun = [each for each in found if each.since_version <= row.since]
    newest = max((each.since_version for each in begun), default=0)
    return [each for each in found if not each.deprecated and newest <= each.since_version <= last]


def is_another_s(row: table.Row) -> bool:
    """Whether a rule has the name of another operator, whose form it also reads."""
    name = row.rule.__name__
    return name[0].isupper() and name.partition("_")[0] != row.operator


def test_a_rule_names_the_attributes_of_its_schema_with_their_defaults() -> None:
    wrong = []
    for row in table.all_rows():
        attributes: dict[str, list[Any]] = {}
        for schema in [] if row.domain else schemas(row):
            for name, each in schema.attributes.items():
                attributes.setdefault(name, []).append(each.default_value)
        for parameter in parameters(row) if attributes else []:
            if parameter.kind is KIND.KEYWORD_ONLY and not is_another_s(row):
                wrong += problems(row.operator, parameter, attributes)
    assert wrong == []


def problems(operator: str, parameter: inspect.Parameter, attributes: dict[str, list[Any]]) -> list[Any]:
    if parameter.name not in attributes:
        return [(operator, parameter.name)]
    given = [onnx.helper.get_attribute_value(each) for each in attributes[parameter.name] if each.type]
    values = [each.decode() if isinstance(each, bytes) else each for each in given]
    default = list(parameter.default) if isinstance(parameter.default, tuple) else parameter.default
    if not values or default in (None, KIND.empty):
        return []
    same = [
        each
        for each in values
        if each == default or (isinstance(default, float) and math.isclose(float(each), default, rel_tol=1e-6))
    ]
    return [] if same else [(operator, parameter.name, default, values)]


def test_inputs_are_given_by_position_and_attributes_by_name() -> None:
    def rule(_: Node, x: Tensor, bias: Any = None, *rest: Tensor, alpha: float = 1.0) -> Any:  # type: ignore[name-defined]  # noqa: F821
        return x, bias, rest, alpha

    class Given(Node):
        def __init__(self, inputs: list[Any], attributes: dict[str, Any]) -> None:
            self.inputs, self.attributes = inputs, attributes

    def given(**attributes: Any) -> dict[str, Any]:
        return {each.name: each for each in ir.convenience.convert_attributes(attributes)}

    bound = table.bind(rule)

    assert bound(Given(["x"], {})) == ("x", None, (), 1.0)
    assert bound(Given(["x", None, "a", None, "b"], given(alpha=0.5))) == ("x", None, ("a", "b"), 0.5)
    assert bound(Given(["x"], given(bias=[1, 2], other=3))) == ("x", [1, 2], (), 1.0)
    with pytest.raises(Refusal, match="an input is missing") as caught:
        bound(Given([None], {}))
    assert caught.value.problem.field == "input 0"


def test_every_input_of_a_rule_is_in_its_schema() -> None:
    for row in table.all_rows():
        known = checking.signature(row.domain, row.operator, row.until or onnx.defs.onnx_opset_version())
        names = [each.name for each in parameters(row) if each.kind is KIND.POSITIONAL_OR_KEYWORD]
        if known is not None and not row.domain and row.rule.__name__ == row.operator:  # others are for several
            assert len(names) <= known.counts[0][1], row.operator
