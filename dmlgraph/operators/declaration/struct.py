"""The C struct that a declared operator becomes: its members' names, kinds and order."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator, Mapping

from pydantic.fields import FieldInfo

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
    """A member that is the class's field `field`."""

    field: str


def struct_name(field: str, kind: Kind) -> str:
    """The name of a field's C member: `trans_a` → TransA, the tensor `a` → ATensor, `inputs` → InputTensors."""
    words = "".join("ROI" if word == "roi" else word.capitalize() for word in field.split("_"))
    if kind is Kind.TENSOR:
        return f"{words}Tensor"
    if kind is Kind.TENSORS:
        return f"{words.removesuffix('s')}Tensors"
    return words


def members_of(fields: Mapping[str, FieldInfo]) -> Iterator[Member]:
    """The members of the struct with these declared fields."""
    counted = set()
    for name, info in fields.items():
        of_type = {type(each): each for each in info.metadata}
        kind = of_type.get(Kind) or Kind.ENUM
        count = of_type.get(Count)
        typed_by = of_type.get(TypedBy)
        if count and count.member not in counted:
            counted.add(count.member)
            yield Member(count.member, Kind.UINT, None, counts=name)
        yield FieldMember(
            struct_name(name, kind),
            kind,
            name,
            role=of_type.get(Role),
            count=count.member if count else None,
            typed_by=typed_by.field if typed_by else None,
            optional=type(None) in typing.get_args(info.annotation),
            entries=of_type.get(Entries),
            axes=of_type.get(Axes),
            rank_of=of_type.get(RankOf),
            number_type=of_type.get(NumberType),
            missing=of_type.get(Missing),
        )
