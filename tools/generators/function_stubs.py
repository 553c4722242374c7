"""Makes dmlgraph/functions.pyi: the signatures of the operators' functions, for type checkers and editors.

The functions are made from the operators' classes at first use; the stubs show their signatures.
"""

from __future__ import annotations

import inspect
import pathlib
import textwrap

from dmlgraph.operators.catalog.registry import FUNCTIONS, REGISTRY
from dmlgraph.operators.declaration.fields import Missing
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.declaration.signatures import outputs_type, result_type, signature

WIDTH = 120  # characters of a line
STUBS = pathlib.Path(__file__).parents[2] / "dmlgraph" / "functions.pyi"

HEADER = '''"""The operators as functions of their tensors.

Made by tools/generate.py from the operators' classes: change those, not this file.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, overload

import numpy as np

from dmlgraph.base.expressions import Expression, Real, Size
from dmlgraph.operators import Operator, OutputSpec, ScaleBias
from dmlgraph.base.scalar import Scalar
from dmlgraph.base.tensor import DataTypeLike, TensorDesc
from dmlgraph.graph.value import Value

Tensor = Value | Expression | int | float | np.ndarray[Any, Any]
Output = TensorDesc | OutputSpec | Mapping[str, Any]

'''


def outputs_class(operator: type[Operator]) -> str:
    """The named tuple of an operator's outputs."""
    made = outputs_type(operator)
    assert made is not None
    # An operator with several outputs: if it has two, both are present.
    always = len(operator.output_fields) == 2
    fields = "".join(
        f"    {field}: Value{'' if always or not operator.fields[field].optional else ' | None'}\n"
        for field in operator.output_fields
    )
    return f'class {made.__name__}(NamedTuple):\n    """{made.__doc__}"""\n\n{fields}'


def overloads(operator: type[Operator]) -> list[tuple[dict[str, str], str]]:
    """What the function returns for requests of optional outputs: (types of these parameters, result)."""
    made = outputs_type(operator)
    if made is None:
        return [({}, result_type(operator))]
    members = {member.field: member for member in operator.members if member.missing is not None and member.field}
    asked = [field for field, member in members.items() if member.missing is Missing.LEFT_OUT]
    if not members:
        return [({}, result_type(operator))]
    wanted, unwanted = "Literal[True] | Output", "Literal[False]"
    untouched = {field: unwanted if field in asked else wanted for field in members}
    there = len(operator.output_fields) - len(asked)
    cases = [(untouched, "Value" if there == 1 else made.__name__)] if there else []
    if there:
        cases += [({field: f"!{wanted}"}, made.__name__) for field in asked]
    if len(operator.output_fields) == 2:
        cases += [({field: f"!{unwanted}"}, "Value") for field in members if field not in asked]
    return [*cases, ({}, result_type(operator))]


def stub(name: str, operator: type[Operator]) -> str:
    """One function, with its overloads."""
    cases = overloads(operator)
    head = "@overload\n" if len(cases) > 1 else ""
    return "\n".join(head + _definition(name, operator, types, result) for types, result in cases)


def _definition(name: str, operator: type[Operator], types: dict[str, str], result: str) -> str:
    """One signature; `types` replaces types of parameters, and a leading ! makes a parameter required."""
    parameters, keywords = [], False
    for parameter in signature(operator).parameters.values():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not keywords:
            keywords = True
            parameters.append("*")
        of_type = types.get(parameter.name)
        if of_type is not None:
            required = of_type.startswith("!")
            of_type = of_type.removeprefix("!")
            parameters.append(f"{parameter.name}: {of_type}{'' if required else ' = ...'}")
        else:
            parameters.append(str(parameter))
    doc = (inspect.getdoc(operator) or "").splitlines()[0]
    return f'{_formatted(name, parameters, result)}\n    """{doc}"""\n'


def _formatted(name: str, parameters: list[str], result: str) -> str:
    """The first lines of a function, as ruff breaks them: in one line, else the parameters in one, else in one each."""
    together = ", ".join(parameters)
    line = f"def {name}({together}) -> {result}:"
    if len(line) <= WIDTH:
        return line
    indented = f"    {together}\n" if len(together) + 4 <= WIDTH else "".join(f"    {each},\n" for each in parameters)
    return f"def {name}(\n{indented}) -> {result}:"


def stubs() -> str:
    """The whole file."""
    functions = [stub(name, REGISTRY[FUNCTIONS[name]]) for name in sorted(FUNCTIONS)]
    names = textwrap.indent(textwrap.fill(", ".join(f'"{name}"' for name in sorted(FUNCTIONS)), WIDTH - 4), "    ")
    several = sorted(filter(outputs_type, REGISTRY.values()), key=lambda each: each.name)
    classes = [outputs_class(operator) for operator in several]
    return f"{HEADER}__all__ = [\n{names}\n]\n\n" + "\n".join(classes + functions)


def files() -> dict[pathlib.Path, str]:
    return {STUBS: stubs()}
