"""Makes dmlgraph/functions.pyi: the signatures of the operators' functions, for type checkers and editors.

    python tools/generate_function_stubs.py

The functions are made from the operators' classes when dmlgraph is imported; this is what they look like from
outside.  A test fails when the file is not what this script makes.
"""

from __future__ import annotations

import inspect
import pathlib

from dmlgraph.operators.functions import all_functions, returns_several, signature
from dmlgraph.operators.operator import REGISTRY, Operator

STUBS = pathlib.Path(__file__).parent.parent / "dmlgraph" / "functions.pyi"

HEADER = '''"""The operators as functions of their tensors.

Made by tools/generate_function_stubs.py from the operators' classes: change those, not this file.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from dmlgraph.value import Value
from dmlgraph.operators import Operator, OutputSpec, ScaleBias
from dmlgraph.scalar import Scalar
from dmlgraph.tensor import DataTypeLike, TensorDesc

Tensor = Value | int | float
Output = TensorDesc | OutputSpec | Mapping[str, Any]

'''


def stub(name: str, operator: type[Operator]) -> str:
    """One function."""
    parameters, keywords = [], False
    for parameter in signature(operator).parameters.values():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not keywords:
            keywords = True
            parameters.append("*")
        parameters.append(str(parameter))
    result = "tuple[Value, ...]" if returns_several(operator) else "Value"
    doc = (inspect.getdoc(operator) or "").splitlines()[0]
    lines = "".join(f"    {each},\n" for each in parameters)
    return f'def {name}(\n{lines}) -> {result}:\n    """{doc}"""\n'


def stubs() -> str:
    """The whole file."""
    by_name = {operator.function_name(): operator for operator in REGISTRY.values()}
    functions = [stub(name, by_name[name]) for name in sorted(all_functions())]
    names = "".join(f'    "{name}",\n' for name in sorted(all_functions()))
    return f"{HEADER}__all__ = [\n{names}]\n\n" + "\n".join(functions)


if __name__ == "__main__":
    STUBS.write_text(stubs())
