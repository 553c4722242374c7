"""An operator as it is given: its fields, each validated by itself, before anything follows from them."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from dmlgraph.base.errors import OperatorError, Problem
from dmlgraph.base.report import Report
from dmlgraph.base.tensor import problems_of
from dmlgraph.operators.declaration.fields import Kind, Role, as_float32
from dmlgraph.operators.declaration.outputs import Given, take_given
from dmlgraph.operators.declaration.struct import FieldMember

if TYPE_CHECKING:
    from dmlgraph.operators.declaration.operator import Operator


def described(operator: type[Operator], data: dict[str, Any]) -> Given:
    """The valid fields: the inputs and attributes, without those that follow from others, and the outputs' requests.

    Numbers may still be without a data type, axes may be negative, and one number (`Everywhere`) be for all entries.

    Raises:
        OperatorError: every problem found.
    """
    given: dict[str, Any] = {}
    with Report(OperatorError) as report:
        with report.at():
            given = take_given(operator.output_arrays, data)
        fields = operator.fields
        try:
            model = _model(operator)(**{key: each for key, each in data.items() if not _left_out(operator, key, each)})
        except ValidationError as error:
            report.add(*(_advised(operator, problem) for problem in problems_of(error, tuple(fields))))
        else:
            given |= {f: value for f, value in vars(model).items() if value is not None or not fields[f].is_inferred}
    return given


def _advised(operator: type[Operator], problem: Problem) -> Problem:
    """The problem; one of a missing tensor says what the operator's name means elsewhere."""
    if problem.code != "missing" or problem.field not in operator.input_fields:
        return problem
    from dmlgraph.operators.catalog.hints import tensor_hint  # it needs all operators

    return dataclasses.replace(problem, hint=tensor_hint(operator))


def _left_out(operator: type[Operator], field: str, value: object) -> bool:
    """Whether a field with this value is left out: the value is None, which is its default, or not a tensor."""
    if value is not None:
        return False
    member = operator.fields.get(field)
    return member is not None and (member.default is None or member.role is Role.INPUT)


@functools.cache
def _model(operator: type[Operator]) -> type[BaseModel]:
    """The model of an operator's inputs and attributes."""
    fields: dict[str, Any] = {
        member.field: (member.annotation, _default(member))
        for member in operator.fields.values()
        if member.role is not Role.OUTPUT
    }
    return create_model(operator.__name__, __config__=_CONFIG, **fields)


_CONFIG = ConfigDict(extra="forbid", arbitrary_types_allowed=True)


def _default(member: FieldMember) -> Any:
    """The default as a valid value: Pydantic does not check defaults."""
    is_number = member.kind is Kind.FLOAT and isinstance(member.default, (int, float))
    return as_float32(member.default) if is_number else member.default
