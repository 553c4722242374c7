"""Makes dmlgraph/operators/index.py and dmlgraph/operators/__init__.pyi from the operators' classes.

    python tools/generate_operator_index.py

The index says which module has the class of an operator, so that a name is known without importing any family of
operators; the stub says the same to type checkers and editors.  A test fails when a file is not what this script
makes.
"""

from __future__ import annotations

import importlib
import pathlib
import pkgutil
from collections.abc import Iterator

import dmlgraph.operators as package
from dmlgraph.operators.operator import Operator

PACKAGE = pathlib.Path(__file__).parent.parent / "dmlgraph" / "operators"

INDEX_HEADER = '''"""Which module has the class of an operator.

Made by tools/generate_operator_index.py from the operators' classes: change those, not this file.
"""

'''
STUB_HEADER = '''"""DirectML's operators: one class each, one module a family.

Made by tools/generate_operator_index.py from the operators' classes: change those, not this file.
"""

'''


def every_operator() -> list[type[Operator]]:
    """The classes of all families, by family and in DirectML's order."""
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    found = {each for each in _subclasses(Operator) if "dml" in vars(each)}
    return sorted(found, key=lambda each: (each.family, each.support().value))


def _subclasses(base: type[Operator]) -> Iterator[type[Operator]]:
    for each in base.__subclasses__():
        yield each
        yield from _subclasses(each)


def index() -> str:
    """The text of index.py."""
    operators = every_operator()
    lines = ["# (family, class) by name.", "OPERATORS = {"]
    lines += [f'    "{each.name}": ("{each.family}", "{each.__name__}"),' for each in operators]
    lines += ["}", "", "# Names of operators by other names they are known by.", "ALIASES = {"]
    lines += [f'    "{alias}": "{each.name}",' for each in operators for alias in each.aliases]
    lines += ["}", "", "# Operators that need no tensors: methods of Graph, where others are functions.", "SOURCES = ("]
    lines += [f'    "{each.name}",' for each in operators if each.is_source()]
    lines += [")", "", "# Operators of several outputs, for which there are named tuples.", "SEVERAL_OUTPUTS = ("]
    lines += [f'    "{each.name}",' for each in operators if len(each.output_fields) > 1]
    return INDEX_HEADER + "\n".join([*lines, ")"]) + "\n"


def stub() -> str:
    """The text of __init__.pyi."""
    imports = [
        "from dmlgraph.operators.fields import ScaleBias as ScaleBias",
        "from dmlgraph.operators.operator import Operator as Operator",
        "from dmlgraph.operators.outputs import OutputSpec as OutputSpec",
        "from dmlgraph.operators.registry import REGISTRY as REGISTRY",
        "from dmlgraph.operators.registry import find as find",
    ]
    imports += [f"from {each.__module__} import {each.__name__} as {each.__name__}" for each in every_operator()]
    return STUB_HEADER + "\n".join(imports) + "\n"


if __name__ == "__main__":
    (PACKAGE / "index.py").write_text(index())
    (PACKAGE / "__init__.pyi").write_text(stub())
