"""Makes dmlgraph/operators/catalog/index.py and dmlgraph/operators/__init__.pyi from the operators' classes.

The index says which module has the class of an operator, so that names are known without importing a family of
operators; the stub says the same to type checkers and editors.
"""

from __future__ import annotations

import importlib
import itertools
import pathlib
import pkgutil
import textwrap
from collections.abc import Iterator

import dmlgraph.operators as package
from dmlgraph.operators.declaration.operator import Operator

PACKAGE = pathlib.Path(__file__).parents[2] / "dmlgraph" / "operators"

HEADER = '''"""{}

Made by tools/generate.py from the operators' classes: change those, not this file.
"""

'''


def every_operator() -> list[type[Operator]]:
    """The classes of all families, by family and in DirectML's order."""
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    found = {each for each in _subclasses(Operator) if "dml" in vars(each)}
    return sorted(found, key=lambda each: (each.family, each.support().value, each.name))


def _subclasses(base: type[Operator]) -> Iterator[type[Operator]]:
    for each in base.__subclasses__():
        yield each
        yield from _subclasses(each)


def index() -> str:
    """The text of index.py."""
    operators = every_operator()
    families = itertools.groupby(operators, key=lambda each: each.family)
    lines = ["# The operators of each family, in DirectML's order.", "FAMILIES = {"]
    for family, members in families:
        lines += _entry(f'    "{family}": ', [each.name for each in members])
    lines += ["}", "", "# Names of operators by their other names.", "ALIASES = {"]
    lines += [f'    "{alias}": "{each.name}",' for each in operators for alias in each.aliases]
    lines += ["}", "", "# Operators that need no tensors: methods of Graph; the others are functions.", "SOURCES = ("]
    lines += [f'    "{each.name}",' for each in operators if each.is_source()]
    lines += [")", "", "# Operators with several outputs, for which there are named tuples."]
    lines += _entry("SEVERAL_OUTPUTS = ", [each.name for each in operators if len(each.output_fields) > 1])
    return HEADER.format("All operators, by family.") + "\n".join(lines) + "\n"


def _entry(head: str, names: list[str]) -> list[str]:
    """The lines of a key or the name of a variable, and a text of names."""
    comma = "," if ":" in head else ""
    lines = [f'"{line} "' for line in textwrap.wrap(" ".join(names), 108)]
    if len(lines) == 1 and len(line := f'{head}{lines[0][:-2]}"{comma}') <= 120:
        return [line]
    indent = "    " if comma else ""
    return [f"{head}(", *(f"{indent}    {line}" for line in lines), f"{indent}){comma}"]


def stub() -> str:
    """The text of __init__.pyi."""
    lines = [
        "from dmlgraph.operators.declaration.fields import ScaleBias as ScaleBias",
        "from dmlgraph.operators.declaration.operator import Operator as Operator",
        "from dmlgraph.operators.declaration.outputs import OutputSpec as OutputSpec",
        "from dmlgraph.operators.catalog.registry import REGISTRY as REGISTRY, find as find",
    ]
    for module, members in itertools.groupby(every_operator(), key=lambda each: each.__module__):
        names = ", ".join(f"{each.__name__} as {each.__name__}" for each in members)
        lines += [
            f"from {module} import (",
            *textwrap.wrap(names, 116, initial_indent="    ", subsequent_indent="    "),
            ")",
        ]
    return HEADER.format("DirectML's operators: one class each, one module a family.") + "\n".join(lines) + "\n"


def files() -> dict[pathlib.Path, str]:
    return {PACKAGE / "catalog" / "index.py": index(), PACKAGE / "__init__.pyi": stub()}
