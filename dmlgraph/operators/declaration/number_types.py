"""The data type of a number that is given for a tensor: the number becomes a fill with the type of some field.

First come the fields that must have the tensor's own type (the `same` rules of the data file), then the sources that
the operator's class declares (`NumberType`).  A field has a type if a tensor is given for it or, for an output, if a
type is requested.
"""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dmlgraph.base.errors import OperatorError, Problem, TensorError
from dmlgraph.base.levels import NEWEST
from dmlgraph.base.report import Placing
from dmlgraph.base.tensor import DataType
from dmlgraph.operators.declaration.fields import NumberSource
from dmlgraph.operators.declaration.operator import Operator, same_dtype_fields
from dmlgraph.operators.declaration.outputs import OutputSpec

Path = tuple[str, int | None]  # a field, and the index in it if it is an array


def number_type(
    operator: type[Operator],
    path: Path,
    number: Any,
    dtype_of: Callable[[Any], DataType | None],
    tensors: Mapping[str, Any],
    outputs: Mapping[str, Any],
) -> DataType:
    """The data type of the number that is given for a tensor.

    Args:
        operator: the operator of the tensor.
        path: the input.
        number: the number.
        dtype_of: the data type of an input's argument; None for a number.
        tensors: the inputs' arguments, by field.
        outputs: the requests for the outputs, by field.

    Raises:
        OperatorError: nothing determines the type; the error has a hint.
    """
    field, _ = path

    def said(source: str) -> DataType | None:
        if source in operator.output_fields:
            return _asked(outputs.get(source))
        given = tensors.get(source)
        each = given if isinstance(given, (list, tuple)) else [given]
        return next((dtype for dtype in map(dtype_of, each) if dtype is not None), None)

    alike = same_dtype_fields(operator, field) or [field]
    own = (dtype for dtype in map(said, alike) if dtype is not None)
    found = next(own, None) or next(_declared(operator, path, number, said), None)
    if found is not None:
        return found
    output = next((each for each in alike if each in operator.output_fields), None)
    raise OperatorError(
        "nothing determines the data type of the number",
        code="undetermined",
        field=field if path[1] is None else f"{field}.{path[1]}",
        got=number,
        hint=_hint(operator, output),
    )


def is_number(given: object) -> bool:
    """Whether an argument for a tensor is a number; a bool is not."""
    return isinstance(given, (numbers.Number, np.number)) and not isinstance(given, (bool, np.bool_))


def hint_on_numbers(tensors: Mapping[str, Any]) -> Placing:
    """Adds a hint to problems about the sizes of tensors that are given as numbers: a number is one element."""

    def hinted(problem: Problem) -> Problem:
        field, _, rest = (problem.field or "").partition(".")
        of_sizes = rest.startswith("sizes") or problem.code == "sizes"
        if not of_sizes or problem.hint is not None or not is_number(tensors.get(field)):
            return problem
        hint = "a number is a tensor of one element: give a tensor of these sizes, a fill for example"
        return dataclasses.replace(problem, hint=hint)

    return hinted


def describe_sources(operator: type[Operator], field: str) -> str | None:
    """The declared data type of a number for an input, in words; None if it is another tensor's."""
    sources = _sources(operator, (field, None))
    if not sources:
        return None
    return ", else ".join(map(_describe, sources))


def _describe(source: NumberSource) -> str:
    if isinstance(source, str):
        return f"as {source}"
    return str(source) if isinstance(source, DataType) else f"{source(0)}, {source(-1)} if negative"


def _declared(
    operator: type[Operator], path: Path, number: Any, said: Callable[[str], DataType | None]
) -> Iterator[DataType]:
    """The types of the declared sources, without those that are not legal for the input at any level."""
    tensor = operator.fields[path[0]].name
    row = operator.support().rows(tensor, NEWEST)
    for source in _sources(operator, path):
        dtype = said(source) if isinstance(source, str) else source if isinstance(source, DataType) else source(number)
        if dtype is not None and (row is None or row.takes(dtype)):
            yield dtype


def _sources(operator: type[Operator], path: Path) -> Sequence[NumberSource]:
    field, index = path
    marker = operator.fields[field].number_type
    if marker is None:
        return ()
    if index is None:
        return [each for each in marker.sources if not isinstance(each, tuple)]
    of_member = marker.sources[index] if index < len(marker.sources) else ()
    return of_member if isinstance(of_member, tuple) else ()


def _asked(output: Any) -> DataType | None:
    """The requested data type of an output."""
    try:
        return None if output is None else OutputSpec.of(output).dtype
    except TensorError:  # reported when the operator is made
        return None


def _hint(operator: type[Operator], output: str | None) -> str:
    if output is None:
        return "make it a tensor with a data type: g.constant(name, number, dtype=…)"
    asked = "dtype=…" if "dtype" in operator.output_keywords else f"{output}={{'dtype': …}}"
    return f"give the output's: {asked}"
