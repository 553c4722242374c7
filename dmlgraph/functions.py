"""The operators as functions of their tensors; functions.pyi has their signatures for type checkers and editors.

Functions are created at first use.
"""

from typing import Any

from dmlgraph.operators.catalog.index import SEVERAL_OUTPUTS
from dmlgraph.operators.catalog.registry import FUNCTIONS, REGISTRY, class_name

_OUTPUTS_TYPES = {f"{class_name(name)}Outputs": name for name in SEVERAL_OUTPUTS.split()}
__all__ = sorted(FUNCTIONS)  # noqa: PLE0605 - a list of text


def __getattr__(name: str) -> Any:
    if name not in FUNCTIONS and name not in _OUTPUTS_TYPES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'", name=name)
    from dmlgraph.graph.calls import make_function
    from dmlgraph.operators.declaration.signatures import outputs_type

    if name in FUNCTIONS:
        made: Any = make_function(REGISTRY[FUNCTIONS[name]])
    else:
        made = outputs_type(REGISTRY[_OUTPUTS_TYPES[name]])
    return globals().setdefault(name, made)


def __dir__() -> list[str]:
    return sorted({*globals(), *FUNCTIONS, *_OUTPUTS_TYPES})
