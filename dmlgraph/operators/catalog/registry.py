"""The operators by name: a class is imported, with its family, when it is first looked up.

The index has the names and their modules, so looking for a name, or listing all, imports nothing.
"""

from __future__ import annotations

import importlib
import keyword
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from dmlgraph.operators.catalog.index import ALIASES, FAMILIES, SOURCES

if TYPE_CHECKING:
    from dmlgraph.operators.declaration.operator import Operator


def class_name(name: str) -> str:
    """The name of an operator's class: fill_value_sequence → FillValueSequence."""
    return "".join(word.capitalize() for word in name.split("_"))


# (family, class) of every operator by name.
OPERATORS = {name: (family, class_name(name)) for family, names in FAMILIES.items() for name in names.split()}


class Registry(Mapping[str, "type[Operator]"]):
    """Every operator's class by the operator's name, in the order of families, then in DirectML's."""

    def __init__(self) -> None:
        self._imported: dict[str, type[Operator]] = {}

    def __getitem__(self, name: str) -> type[Operator]:
        found = self._imported.get(name)
        if found is None:
            family, cls = OPERATORS[name]
            found = self._imported[name] = getattr(importlib.import_module(f"dmlgraph.operators.{family}"), cls)
        return found

    def __contains__(self, name: object) -> bool:
        return name in OPERATORS

    def __iter__(self) -> Iterator[str]:
        return iter(OPERATORS)

    def __len__(self) -> int:
        return len(OPERATORS)


REGISTRY = Registry()


def function_name(name: str) -> str:
    """An operator's name in Python: with a trailing underscore if Python reserves the word."""
    return f"{name}_" if keyword.iskeyword(name) else name


# The names of operators by the names of their functions; sources are methods of Graph instead.
FUNCTIONS = {function_name(name): name for name in OPERATORS if name not in SOURCES}


def full_name(name: str) -> str | None:
    """The operator's name for a name in YAML: `multiply`, `element_wise_multiply`, or an alias; None if unknown."""
    for each in (name, name.removeprefix("element_wise_")):
        if each in OPERATORS:
            return each
    return ALIASES.get(name)


def find(name: str) -> type[Operator] | None:
    """The operator class for a name in YAML: `multiply`, `element_wise_multiply`, or an alias; None if unknown."""
    known = full_name(name)
    return None if known is None else REGISTRY[known]
