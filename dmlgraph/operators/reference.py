"""Help on operators as text, made from their classes: what `dmlgraph operators` prints."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator

from dmlgraph.operators.fields import Kind, Role
from dmlgraph.operators.operator import REGISTRY, Operator
from dmlgraph.operators.struct import Member

_WORDS = {
    Kind.UINT: "integer ≥ 0",
    Kind.INT: "integer",
    Kind.FLOAT: "number",
    Kind.BOOL: "true or false",
    Kind.SCALAR: "number",
    Kind.UINTS: "list of integers ≥ 0",
    Kind.INTS: "list of integers",
    Kind.FLOATS: "list of numbers",
    Kind.SCALE_BIAS: "{scale: number, bias: number}",
    Kind.SIZE_2D: "[width, height]",
    Kind.OPERATOR: "activation, as name or {op: name, …}",
    Kind.OPERATORS: "list of activations",
    Kind.DATA_TYPE: "data type",
}


def overview() -> str:
    """Every operator by family, with the level that introduced it and the first line of its meaning."""
    lines = []
    by_family = sorted(REGISTRY.values(), key=lambda each: each.family)
    for family, members in itertools.groupby(by_family, key=lambda each: each.family):
        lines.append(f"{family.replace('_', '-')}:")
        for operator in sorted(members, key=lambda each: each.support().value):
            meaning = (inspect.getdoc(operator) or "").splitlines()[0]
            lines.append(f"  {operator.name:<24} {operator.support().introduced}  {meaning}")
    return "\n".join(lines)


def describe(operator: type[Operator]) -> str:
    """An operator's meaning, fields, struct, and tensor support by feature level."""
    return "\n".join(
        [
            f"{operator.name}  (DML_OPERATOR_{operator.dml}, feature level {operator.support().introduced})",
            "",
            *(f"  {line}".rstrip() for line in (inspect.getdoc(operator) or "").splitlines()),
            "",
            "fields:",
            *_fields(operator),
            "",
            "data types and dimensions by feature level:",
            *_levels(operator),
        ]
    )


def _fields(operator: type[Operator]) -> Iterator[str]:
    for member in operator.members:
        if member.field is not None:
            yield f"  {member.field:<20} {_takes(operator, member)}{_default(operator, member)}"


def _takes(operator: type[Operator], member: Member) -> str:
    if member.role is not None:
        several = "tensors" if member.kind is Kind.TENSORS else "tensor"
        return f"{member.role.value} {several}"
    if member.kind is Kind.ENUM and member.field is not None:
        return " | ".join(operator.enumeration(member.field).names())
    return _WORDS[member.kind]


def _default(operator: type[Operator], member: Member) -> str:
    info = operator.model_fields[member.field or ""]
    if member.role is Role.OUTPUT:
        return ", asked for by dtype and sizes" if operator.is_source() else ", inferred"
    if info.is_required():
        return ""
    return ", optional" if info.default is None else f", default {info.default}"


def _levels(operator: type[Operator]) -> Iterator[str]:
    for level, rows in operator.support().levels.items():
        yield f"  from {level}:"
        fields = {member.name: member.field for member in operator.members}
        # Rows that say the same are one line.
        said: dict[str, list[str]] = {}
        for row in rows:
            functions = f" ({', '.join(sorted(row.functions))})" if row.functions else ""
            said.setdefault(f"{row.describe_ranks()}: {row.describe_dtypes()}{functions}", []).append(
                fields.get(row.tensor) or row.tensor
            )
        for text, tensors in said.items():
            yield f"    {', '.join(tensors)}: {text}"
