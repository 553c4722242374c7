"""The C struct that a declared operator becomes: its members' names, kinds and order."""

from __future__ import annotations

import dataclasses
import inspect
import sys
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dmlgraph.operators.declaration.fields import Axes, Count, Entries, Kind, Missing, NumberType, RankOf, Role, TypedBy


@dataclasses.dataclass(frozen=True, slots=True)
class Member:
    """One member of an operator's C struct: a `FieldMember`, or a count, which has no field.

    A count's value is the length of the array field `counts`.  The markers in the field's annotation are attributes:
    `entries`, `axes`, `rank_of`, `number_type`, `missing`.
    """

    name: str
    kind: Kind
    field: str | None
    role: Role | None = None
    counts: str | None = None
    count: str | None = None
    typed_by: str | None = None
    optional: bool = False
    entries: Entries | None = None
    axes: Axes | None = None
    rank_of: RankOf | None = None
    number_type: NumberType | None = None
    missing: Missing | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class FieldMember(Member):
    """A member that is the class's field `field`.

    Attributes:
        annotation: the field's type, with its markers.
        default: what it is if it is left out; None: it is absent, or follows from other fields; `...`: it is required.
    """

    field: str
    annotation: Any = dataclasses.field(default=None, compare=False)
    default: Any = ...

    @property
    def required(self) -> bool:
        return self.default is ...

    @property
    def is_inferred(self) -> bool:
        """Whether the field, if it is left out, follows from others."""
        return self.default is None and not self.optional


def take_fields(cls: type) -> dict[str, FieldMember]:
    """The fields that the body of a class declares, by name; their defaults are no longer attributes of the class.

    Class variables are not fields.  Annotations are text, as `from __future__ import annotations` makes them.
    """
    names = vars(sys.modules[cls.__module__])
    texts = {name: text for name, text in inspect.get_annotations(cls).items() if not text.startswith("ClassVar")}
    fields = {name: _field(name, eval(text, names), vars(cls).get(name, ...)) for name, text in texts.items()}
    for name, member in fields.items():
        if not member.required:
            delattr(cls, name)
    return fields


def in_struct_order(declared: Iterable[Mapping[str, FieldMember]]) -> dict[str, FieldMember]:
    """The fields of an operator, from those that its bases and its class declare, the most general base first.

    A struct has the inputs first, then the outputs, then the rest: so the tensors that a class adds come before the
    attributes that it inherits.  A field that is declared again moves to its new place.  The fields of one class alone
    keep their order.
    """
    fields: dict[str, FieldMember] = {}
    for own in declared:
        inherited = {field: member for field, member in fields.items() if field not in own}
        fields = {**inherited, **own}
        if inherited:
            ordered = sorted(fields.values(), key=lambda member: _ROLES.index(member.role))
            fields = {member.field: member for member in ordered}
    return fields


_ROLES = (Role.INPUT, Role.OUTPUT, None)


def struct_name(field: str, kind: Kind) -> str:
    """The name of a field's C member: `trans_a` → TransA, the tensor `a` → ATensor, `inputs` → InputTensors."""
    words = "".join("ROI" if word == "roi" else word.capitalize() for word in field.split("_"))
    if kind is Kind.TENSOR:
        return f"{words}Tensor"
    if kind is Kind.TENSORS:
        return f"{words.removesuffix('s')}Tensors"
    return words


def _field(name: str, annotation: Any, default: Any) -> FieldMember:
    of_type = {type(each): each for each in getattr(annotation, "__metadata__", ())}
    kind = of_type.get(Kind) or Kind.ENUM
    count, typed_by = of_type.get(Count), of_type.get(TypedBy)
    return FieldMember(
        struct_name(name, kind),
        kind,
        name,
        role=of_type.get(Role),
        count=count.member if count else None,
        typed_by=typed_by.field if typed_by else None,
        optional=types.NoneType in typing.get_args(getattr(annotation, "__origin__", None)),
        entries=of_type.get(Entries),
        axes=of_type.get(Axes),
        rank_of=of_type.get(RankOf),
        number_type=of_type.get(NumberType),
        missing=of_type.get(Missing),
        annotation=annotation,
        default=default,
    )


def members_of(fields: Iterable[FieldMember]) -> Iterator[Member]:
    """The members of the struct with these fields: each count precedes the first of its arrays."""
    counted = set()
    for field in fields:
        if field.count is not None and field.count not in counted:
            counted.add(field.count)
            yield Member(field.count, Kind.UINT, None, counts=field.field)
        yield field


def struct_values(members: Iterable[Member], values: Mapping[str, Any]) -> Iterator[tuple[Member, Any]]:
    """The members in order with their values, from those of the fields; a count's is its array's length."""
    for member in members:
        yield member, len(values[member.counts]) if member.counts else values[member.field or ""]
