"""Checked operators: a graph checks an operator once, however many of its nodes are equal.

Checking takes far longer than looking up what was checked.  An operator is known by its class, the descriptions of its
inputs and the fields that are given.  Numbers that are equal, such as 1 and 1.0, or 0.0 and −0.0, are different fields.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

from dmlgraph.levels import FeatureLevel
from dmlgraph.network import Outputs
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.tensor import TensorDesc


class Checked(NamedTuple):
    """An operator that is legal, and what its nodes write."""

    operator: Operator
    outputs: Outputs


class CheckedOperators:
    """The operators that a graph has checked, by what they are made of.

    Of equal descriptions the graph holds one (`shared`), so that keys tell them apart by identity.
    """

    def __init__(self) -> None:
        self._operators: dict[Hashable, Checked] = {}
        self._descs: dict[TensorDesc, TensorDesc] = {}

    def shared(self, outputs: Outputs) -> Outputs:
        """The outputs with the descriptions that the graph holds."""
        descs = tuple(desc and self._descs.setdefault(desc, desc) for desc in outputs.descs)
        return outputs._replace(descs=descs)

    def find(self, key: Hashable | None) -> Checked | None:
        return None if key is None else self._operators.get(key)

    def keep(self, key: Hashable | None, checked: Checked) -> None:
        if key is not None:
            self._operators[key] = checked

    def __reduce__(self) -> tuple[Any, ...]:
        """Identities end with the process: a copy elsewhere begins anew."""
        return CheckedOperators, ()


def key_of(
    operator: type[Operator], level: FeatureLevel, inputs: Mapping[str, Any], fields: Mapping[str, Any]
) -> Hashable | None:
    """What tells a checked operator from all others of a graph; None where that would take too long.

    Args:
        operator: its class.
        level: that it is checked at.
        inputs: input field → a description that the graph holds, a tuple of these, or None.
        fields: the other fields that are given, with dims resolved.
    """
    descs = tuple([tuple(map(id, desc)) if type(desc) is tuple else id(desc) for desc in inputs.values()])
    try:
        return operator, id(level), descs, _typed(fields) if fields else None
    except TypeError:
        return None


def _typed(value: Any) -> Hashable:
    """A field so that only what means the same is equal.

    Raises:
        TypeError: it is an array, or something else that is not looked into.
    """
    kind = type(value)
    if kind in _PLAIN or isinstance(value, enum.Enum):
        return kind, value
    if kind is float:
        return kind, repr(value)  # which tells the zeros apart
    if kind in (list, tuple):
        return tuple(_typed(each) for each in value)
    if kind is dict:
        return dict, tuple((key, _typed(each)) for key, each in value.items())
    raise TypeError


_PLAIN = (int, bool, str, type(None))
