"""Help on operators as text, made from their classes: what `dmlgraph operators` prints."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator

from dmlgraph.operators.catalog.examples import example
from dmlgraph.operators.catalog.registry import REGISTRY
from dmlgraph.operators.declaration.fields import Kind, Missing, Role
from dmlgraph.operators.declaration.number_types import describe_sources
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.declaration.struct import FieldMember


def overview() -> str:
    """Every operator by family, with the level that introduced it and the first line of its meaning."""
    lines = []
    width = max(map(len, REGISTRY))
    by_family = sorted(REGISTRY.values(), key=lambda each: each.family)
    for family, members in itertools.groupby(by_family, key=lambda each: each.family):
        lines.append(f"{family.replace('_', '-')}:")
        for operator in sorted(members, key=lambda each: each.support().value):
            meaning = (inspect.getdoc(operator) or "").splitlines()[0]
            lines.append(f"  {operator.name:<{width}}  {operator.support().introduced}  {meaning}")
    return "\n".join(lines)


def describe(operator: type[Operator]) -> str:
    """An operator's meaning, fields, tensor support by feature level, and an example."""
    return "\n".join(
        [
            f"{operator.name}  (DML_OPERATOR_{operator.dml}, feature level {operator.support().introduced})",
            "",
            *(f"  {line}".rstrip() for line in (inspect.getdoc(operator) or "").splitlines()),
            "",
            "fields:",
            *_field_lines(operator),
            "",
            "data types and dimensions by feature level:",
            *_level_lines(operator),
            "",
            "example:",
            *(f"  {line}".rstrip() for line in example(operator).splitlines()),
        ]
    )


def field_rows(operator: type[Operator]) -> Iterator[tuple[str, str, str]]:
    """(field, what it takes, default) of every field, in the struct's order."""
    for name, member in operator.fields.items():
        yield name, _takes(operator, member), _default(operator, member)


def level_rows(operator: type[Operator]) -> Iterator[tuple[str, str, str, str]]:
    """(from level, tensors, dimensions, data types); tensors with the same rules at a level share a row."""
    fields = {member.name: member.field for member in operator.members}
    for level, rows in operator.support().levels.items():
        said: dict[tuple[str, str], list[str]] = {}
        for row in rows:
            functions = f" ({', '.join(sorted(row.functions))})" if row.functions else ""
            what = row.describe_ranks(), f"{row.describe_dtypes() if row.dtypes else 'not documented'}{functions}"
            said.setdefault(what, []).append(fields.get(row.tensor) or row.tensor)
        for (ranks, dtypes), tensors in said.items():
            yield str(level), ", ".join(tensors), ranks, dtypes


def _field_lines(operator: type[Operator]) -> Iterator[str]:
    for name, takes, default in field_rows(operator):
        yield f"  {name:<20} {takes}{default and f', {default}'}"


def _level_lines(operator: type[Operator]) -> Iterator[str]:
    for level, rows in itertools.groupby(level_rows(operator), key=lambda row: row[0]):
        yield f"  from {level}:"
        yield from (f"    {tensors}: {ranks}: {dtypes}" for _, tensors, ranks, dtypes in rows)


def _takes(operator: type[Operator], member: FieldMember) -> str:
    if member.role is not None:
        several = "tensors" if member.kind is Kind.TENSORS else "tensor"
        numbers = describe_sources(operator, member.field)
        return f"{member.role.value} {several}" + (f" (a number: {numbers})" if numbers else "")
    if member.kind is Kind.ENUM:
        return " | ".join(operator.enumeration(member.field).names())
    if member.entries is not None:
        return f"{member.kind.form.takes}, one for each {member.entries.of}, or one for all"
    if member.axes is not None:
        return "axis or list of axes, negative from the end" if member.count else "axis, negative from the end"
    return member.kind.form.takes


def _default(operator: type[Operator], member: FieldMember) -> str:
    if member.role is Role.OUTPUT and not member.optional:
        return "requested by dtype and sizes" if operator.is_source() else "inferred"
    if member.required:
        return ""
    if member.missing is not None:
        return "present unless false" if member.missing is Missing.THERE else "present if requested"
    default = _declared_default(member) if member.default is None else member.default
    if default is None:
        return "optional" if member.optional or member.role is not None else "inferred"
    return f"default {default}"


def _declared_default(member: FieldMember) -> str | None:
    """The default of a field that follows from its declaration, if it has one."""
    if member.entries is not None and member.entries.default is not None:
        return f"{member.entries.default} everywhere"
    if member.axes is not None and member.axes.default is not None:
        return member.axes.default.value
    return f"the dimensions of {member.rank_of.field}" if member.rank_of is not None else None
