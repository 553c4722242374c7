"""The types of the functions' parameters, as the stubs and `help` show them."""

from __future__ import annotations

import inspect

from dmlgraph.operators.enumeration import Enumeration
from dmlgraph.operators.fields import Kind
from dmlgraph.operators.operator import Operator

# By what a caller may give for a field of this kind.
TYPES = {
    Kind.UINT: "int | str",
    Kind.INT: "int | str",
    Kind.FLOAT: "float",
    Kind.BOOL: "bool",
    Kind.SCALAR: "float | Scalar | Mapping[str, Any]",
    Kind.UINTS: "Sequence[int | str]",
    Kind.INTS: "Sequence[int | str]",
    Kind.FLOATS: "Sequence[float]",
    Kind.SCALE_BIAS: "ScaleBias | Mapping[str, float]",
    Kind.SIZE_2D: "Sequence[int | str]",
    Kind.OPERATOR: "str | Mapping[str, Any] | Operator",
    Kind.DATA_TYPE: "DataTypeLike",
    Kind.OPERATORS: "Sequence[str | Mapping[str, Any] | Operator]",
}


class Annotation(str):
    """A type as text, which a signature shows without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def annotated(operator: type[Operator], parameter: inspect.Parameter) -> inspect.Parameter:
    """The parameter with its type, and with its default as a caller would write it."""
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
    if name not in operator.model_fields:  # a member of the output, taken directly
        return {"dtype": "DataTypeLike"}.get(name, "Sequence[int | str]")
    member = operator.members_by_field()[name]
    if name in operator.output_fields:
        if member.kind is Kind.TENSORS:
            return "int | str | Sequence[int | str | Output]"
        return "Output | bool" if member.optional else "Output"
    if name in operator.input_fields:
        return "Sequence[Tensor]" if member.kind is Kind.TENSORS else "Tensor"
    if member.kind is Kind.ENUM:
        names = operator.enumeration(name).names()
        return "Literal[" + ", ".join(f'"{each}"' for each in names) + "]"
    one_for_all = {Kind.FLOATS: "float | "}.get(member.kind, "int | str | ")
    return (one_for_all if member.entries is not None else "") + TYPES[member.kind]
