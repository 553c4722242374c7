"""Bindings: the tensors of an operator in the order in which DirectML binds them, with their ports.

An array of tensors has one binding per member; an absent tensor has a binding without a description.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from dmlgraph.base.tensor import TensorDesc


class Binding(NamedTuple):
    """One tensor of an operator.

    Attributes:
        port: its index among the operator's inputs, or among its outputs.
        field: its field.
        place: its index in the field if that is an array; else None.
        desc: its description; None if it is absent.
    """

    port: int
    field: str
    place: int | None
    desc: TensorDesc | None

    @property
    def path(self) -> str:
        """The field as problems name it: `input`, `inputs.1`."""
        return self.field if self.place is None else f"{self.field}.{self.place}"


def bindings(values: Mapping[str, Any], fields: Iterable[str]) -> list[Binding]:
    """The bindings of these fields, whose values are descriptions, tuples of them, or None."""
    found: list[Binding] = []
    for field in fields:
        value = values[field]
        if isinstance(value, tuple):
            found += [Binding(port, field, port - len(found), desc) for port, desc in enumerate(value, len(found))]
        else:
            found.append(Binding(len(found), field, None, value))
    return found


def by_field(bound: Iterable[Binding], values: Mapping[int, Any]) -> dict[str, Any]:
    """Values by port → by field: tuples of values for arrays, None for a port without a value."""
    fields: dict[str, Any] = {}
    for binding in bound:
        value = values.get(binding.port)
        fields[binding.field] = value if binding.place is None else (*fields.get(binding.field, ()), value)
    return fields
