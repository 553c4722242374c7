"""OperatorCache: a graph checks equal operators only once.

Checking takes far longer than a lookup.  The key of an operator is its class, the descriptions of its inputs and the
given fields.  Equal numbers such as 1 and 1.0, or 0.0 and −0.0, are different fields.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.tensor import TensorDesc
from dmlgraph.graph.network import Outputs
from dmlgraph.operators.declaration.operator import Operator


class Checked(NamedTuple):
    """A legal operator, and the outputs of its nodes."""

    operator: Operator
    outputs: Outputs


class OperatorCache:
    """The operators that a graph has checked, by their keys.

    The graph holds one object for equal descriptions (`shared`), so that keys can compare them by identity.
    """

    def __init__(self) -> None:
        self._operators: dict[Hashable, Checked] = {}
        self._descs: dict[TensorDesc, TensorDesc] = {}

    def shared(self, outputs: Outputs) -> Outputs:
        """The same outputs with the graph's shared descriptions."""
        descs = tuple(desc and self._descs.setdefault(desc, desc) for desc in outputs.descs)
        return outputs._replace(descs=descs)

    def find(self, key: Hashable | None) -> Checked | None:
        return None if key is None else self._operators.get(key)

    def keep(self, key: Hashable | None, checked: Checked) -> None:
        if key is not None:
            self._operators[key] = checked

    def __reduce__(self) -> tuple[Any, ...]:
        """Identities are valid in one process only: an unpickled copy starts empty."""
        return OperatorCache, ()


def key_of(
    operator: type[Operator], level: FeatureLevel, inputs: Mapping[str, Any], fields: Mapping[str, Any]
) -> Hashable | None:
    """The key of an operator in a graph; None if a field has no hashable form (`_typed`).

    Args:
        operator: its class.
        level: the level at which it is checked.
        inputs: input field → a shared description of the graph, a tuple of these, or None.
        fields: the other given fields, with dims resolved.
    """
    descs = tuple([tuple(map(id, desc)) if type(desc) is tuple else id(desc) for desc in inputs.values()])
    try:
        return operator, id(level), descs, _typed(fields) if fields else None
    except TypeError:
        return None


def _typed(value: Any) -> Hashable:
    """A hashable form of a field; equal only for fields with the same meaning.

    Raises:
        TypeError: it is an array, or of another kind that has no such form.
    """
    kind = type(value)
    if kind in _PLAIN or isinstance(value, enum.Enum):
        return kind, value
    if kind is float:
        return kind, repr(value)  # different for 0.0 and −0.0
    if kind in (list, tuple):
        return tuple(_typed(each) for each in value)
    if kind is dict:
        return dict, tuple((key, _typed(each)) for key, each in value.items())
    raise TypeError


_PLAIN = (int, bool, str, type(None))
