"""Makes dmlgraph/functions.pyi: the signatures of the operators' functions, for type checkers and editors.

    python tools/generate_function_stubs.py

The functions are made from the operators' classes when dmlgraph is imported; this is what they look like from
outside.  A test fails when the file is not what this script makes.
"""

from __future__ import annotations

import inspect
import pathlib

from dmlgraph.operators.fields import Kind, Missing
from dmlgraph.operators.functions import all_functions, outputs_type, signature
from dmlgraph.operators.operator import REGISTRY, Operator

STUBS = pathlib.Path(__file__).parent.parent / "dmlgraph" / "functions.pyi"

HEADER = '''"""The operators as functions of their tensors.

Made by tools/generate_function_stubs.py from the operators' classes: change those, not this file.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, overload

from dmlgraph.value import Value
from dmlgraph.operators import Operator, OutputSpec, ScaleBias
from dmlgraph.scalar import Scalar
from dmlgraph.tensor import DataType, TensorDesc

Tensor = Value | int | float
Output = TensorDesc | OutputSpec | Mapping[str, Any]

'''

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
    Kind.DATA_TYPE: "DataType | str",
    Kind.OPERATORS: "Sequence[str | Mapping[str, Any] | Operator]",
}


def parameter_type(operator: type[Operator], name: str) -> str:
    """The type of one parameter, as a caller may give it."""
    if name == "name":
        return "str"
    if name not in operator.model_fields:  # a member of the output, taken directly
        return {"dtype": "DataType | str"}.get(name, "Sequence[int | str]")
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


def outputs_class(operator: type[Operator]) -> str:
    """The named tuple of an operator's outputs."""
    made = outputs_type(operator)
    assert made is not None
    # There are several of them: of two both are there.
    always = len(operator.output_fields) == 2
    fields = "".join(
        f"    {field}: Value{'' if always or not operator.members_by_field()[field].optional else ' | None'}\n"
        for field in operator.output_fields
    )
    return f'class {made.__name__}(NamedTuple):\n    """{made.__doc__}"""\n\n{fields}'


def overloads(operator: type[Operator]) -> list[tuple[dict[str, str], str]]:
    """What the function returns by how optional outputs are asked for: (types of these parameters, result)."""
    made = outputs_type(operator)
    if made is None:
        return [({}, "tuple[Value, ...]" if any(operator.output_arrays.values()) else "Value")]
    members = {member.field: member for member in operator.members if member.missing is not None and member.field}
    asked = [field for field, member in members.items() if member.missing is Missing.LEFT_OUT]
    if not members:
        return [({}, made.__name__)]
    wanted, unwanted = "Literal[True] | Output", "Literal[False]"
    untouched = {field: unwanted if field in asked else wanted for field in members}
    there = len(operator.output_fields) - len(asked)
    cases = [(untouched, "Value" if there == 1 else made.__name__)] if there else []
    if there:
        cases += [({field: f"!{wanted}"}, made.__name__) for field in asked]
    if len(operator.output_fields) == 2:
        cases += [({field: f"!{unwanted}"}, "Value") for field in members if field not in asked]
    return [*cases, ({}, f"{made.__name__} | Value")]


def stub(name: str, operator: type[Operator]) -> str:
    """One function, with its overloads."""
    cases = overloads(operator)
    head = "@overload\n" if len(cases) > 1 else ""
    return "\n".join(head + _definition(name, operator, types, result) for types, result in cases)


def _definition(name: str, operator: type[Operator], types: dict[str, str], result: str) -> str:
    """One signature; `types` takes the place of parameters' types, a leading ! says it must be given."""
    parameters, keywords = [], False
    for parameter in signature(operator).parameters.values():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not keywords:
            keywords = True
            parameters.append("*")
        required = parameter.default is inspect.Parameter.empty
        of_type = types.get(parameter.name) or parameter_type(operator, parameter.name)
        if of_type.startswith("!"):
            required, of_type = True, of_type[1:]
        optional = "" if required or parameter.default is not None else " | None"
        parameters.append(f"{parameter.name}: {of_type}{optional}{'' if required else ' = ...'}")
    doc = (inspect.getdoc(operator) or "").splitlines()[0]
    lines = "".join(f"    {each},\n" for each in parameters)
    return f'def {name}(\n{lines}) -> {result}:\n    """{doc}"""\n'


def stubs() -> str:
    """The whole file."""
    by_name = {operator.function_name(): operator for operator in REGISTRY.values()}
    functions = [stub(name, by_name[name]) for name in sorted(all_functions())]
    names = "".join(f'    "{name}",\n' for name in sorted(all_functions()))
    several = sorted(filter(outputs_type, REGISTRY.values()), key=lambda each: each.name)
    classes = [outputs_class(operator) for operator in several]
    return f"{HEADER}__all__ = [\n{names}]\n\n" + "\n".join(classes + functions)


if __name__ == "__main__":
    STUBS.write_text(stubs())
