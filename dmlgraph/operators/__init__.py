"""DirectML's operators: one class per operator, one module per family.

A name is imported from its family when it is first used; __init__.pyi lists all names for type checkers.
"""

import importlib
from typing import Any

from dmlgraph.operators.catalog.registry import OPERATORS

_MODULES = {
    "Operator": "declaration.operator",
    "OutputSpec": "declaration.outputs",
    "REGISTRY": "catalog.registry",
    "ScaleBias": "declaration.fields",
    "find": "catalog.registry",
    **{cls: family for family, cls in OPERATORS.values()},
}
__all__ = sorted(_MODULES)  # noqa: PLE0605 - a list of text


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'", name=name)
    return globals().setdefault(name, getattr(importlib.import_module(f"{__name__}.{module}"), name))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
