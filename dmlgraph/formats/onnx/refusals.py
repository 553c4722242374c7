"""Why a node of a model cannot be imported."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable
from typing import Any

from dmlgraph.base.errors import Problem


class ByDefinition(Exception):  # noqa: N818 - it is no error
    """Raised by the rules for a form of an operator that ONNX's definition by other operators serves better."""


class AlreadyNotedError(Exception):
    """A node of a function or subgraph could not be imported; its problem is noted."""


class Refusal(Exception):  # noqa: N818 - not an error of its own: it becomes a problem of a ModelError
    """Raised by the rules for a node that has no counterpart; takes the fields of a problem."""

    def __init__(self, message: str, *, code: str = "unsupported", **fields: Any) -> None:
        super().__init__(message)
        self.problem = Problem(message, code=code, **fields)


def unsupported(attribute: str, allowed: str, got: object) -> Refusal:
    """The refusal of an attribute's value."""
    return Refusal("has no counterpart in DirectML", code="unsupported", field=attribute, got=got, allowed=allowed)


def check_mode(mode: str, modes: Collection[str]) -> None:
    """Refuses a `mode` that is not one of these."""
    if mode not in modes:
        raise unsupported("mode", ", ".join(modes), mode)


DATA = ""  # stands among the names of inputs for those that are data: a graph of known data computes nothing


def give_values(names: Iterable[str]) -> str:
    """The hint to give inputs of the model values; or why that does not help."""
    names = sorted(names)
    if DATA in names:
        return "it is computed when the model runs"
    options = "".join(f", --value {shlex.quote(name)}=…" for name in names)
    values = ", ".join(f"'{name}': …" for name in names)
    return f"values={{{values}}}{options}" if names else "it is computed when the model runs"
