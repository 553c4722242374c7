"""The signatures of the operators' functions, with the types that the stubs and `help` show."""

from __future__ import annotations

import functools
import inspect
from typing import Any, NamedTuple

from dmlgraph.operators.declaration.enumeration import Enumeration
from dmlgraph.operators.declaration.fields import AXIS_COUNT, Kind
from dmlgraph.operators.declaration.operator import Operator

_KEYWORD = inspect.Parameter.KEYWORD_ONLY


class Annotation(str):
    """A type as text; a signature shows it without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def annotated(operator: type[Operator], parameter: inspect.Parameter) -> inspect.Parameter:
    """The parameter with its type, and its default as a caller would write it."""
    optional = " | None" if parameter.default is None else ""
    default = parameter.default
    return parameter.replace(
        annotation=Annotation(parameter_type(operator, parameter.name) + optional),
        default=str(default) if isinstance(default, Enumeration) else default,
    )


def parameter_type(operator: type[Operator], name: str) -> str:
    """The type of one parameter, as a caller may give it."""
    if name == "name":
        return "str"
    if name not in operator.fields:  # a member of the output, taken directly
        return {"dtype": "DataTypeLike"}.get(name, "Sequence[Size]")
    member = operator.fields[name]
    if name in operator.output_fields:
        if member.kind is Kind.TENSORS:
            return "Size | Sequence[Size | Output]"
        return "Output | bool" if member.optional else "Output"
    if name in operator.input_fields:
        return "Sequence[Tensor]" if member.kind is Kind.TENSORS else "Tensor"
    if member.kind is Kind.ENUM:
        names = operator.enumeration(name).names()
        return "Literal[" + ", ".join(f'"{each}"' for each in names) + "]"
    one_for_all = "Real | " if member.kind is Kind.FLOATS else "Size | "
    is_one_enough = member.entries is not None or member.count == AXIS_COUNT
    return (one_for_all if is_one_enough else "") + member.kind.form.parameter


@functools.cache
def outputs_type(operator: type[Operator]) -> type[tuple[Any, ...]] | None:
    """The named tuple of an operator's outputs; None if it has one output, or an array of outputs."""
    if len(operator.output_fields) == 1:
        return None
    values = [(field, Any) for field in operator.output_fields]
    made = NamedTuple(f"{operator.__name__}Outputs", values)  # type: ignore[misc]
    made.__doc__ = f"The outputs of {operator.name}; one that is left out is None."
    made.__module__ = "dmlgraph.functions"
    return made


def tensor_parameters(operator: type[Operator]) -> list[inspect.Parameter]:
    """The positional part of an operator's signature."""
    tensors = [
        inspect.Parameter(
            field,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=inspect.Parameter.empty if operator.fields[field].required else None,
        )
        for field in operator.input_fields
    ]
    # If a required tensor follows an optional one, callers write None for the optional one.
    for index in range(1, len(tensors)):
        if tensors[index].default is inspect.Parameter.empty and tensors[index - 1].default is None:
            tensors[index] = tensors[index].replace(default=None)
    return tensors


def keyword_parameters(operator: type[Operator]) -> list[inspect.Parameter]:
    """The keyword-only part of an operator's signature."""
    parameters = [
        inspect.Parameter(
            key,
            _KEYWORD,
            default=None if operator.input_fields or key == "strides" else inspect.Parameter.empty,
        )
        for key in operator.output_keywords
    ]
    for field in operator.attribute_fields:
        member = operator.fields[field]
        default = inspect.Parameter.empty if member.required else member.default
        parameters.append(inspect.Parameter(field, _KEYWORD, default=default))
    if not operator.is_source():
        parameters += [inspect.Parameter(field, _KEYWORD, default=None) for field in operator.output_fields]
    return [*parameters, inspect.Parameter("name", _KEYWORD, default=None)]


def signature(operator: type[Operator]) -> inspect.Signature:
    """The signature of an operator's function."""
    parameters = [*tensor_parameters(operator), *keyword_parameters(operator)]
    types = [annotated(operator, each) for each in parameters]
    return inspect.Signature(types, return_annotation=Annotation(result_type(operator)))


def result_type(operator: type[Operator]) -> str:
    """The type of the function's result, for any requested outputs."""
    made = outputs_type(operator)
    if made is None:
        return "tuple[Value, ...]" if any(operator.output_arrays.values()) else "Value"
    optional = any(member.missing is not None and member.field for member in operator.members)
    return f"{made.__name__} | Value" if optional else made.__name__
