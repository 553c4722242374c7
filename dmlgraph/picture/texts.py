"""Texts of pictures: fields, tensors and names, long or cut to the width of a box."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Any

import numpy as np

from dmlgraph.base.tensor import TensorDesc
from dmlgraph.operators.convolution import FilteredWindows
from dmlgraph.operators.declaration.fields import Kind, ScaleBias
from dmlgraph.operators.declaration.fused import FusedActivation
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.declaration.struct import FieldMember

LONGEST = 34  # columns of a line in a box; longer lines are cut, and complete in the rows
VALUES = 16  # elements of a constant that are shown
BETWEEN = " · "  # fields in a line
# What a field is in nearly every node, where its operator infers it; the name of a type says what its numbers say.
USUAL = {"group_count": 1, "use_clip_threshold": False}
UNTOLD = (Kind.DATA_TYPE,)


def text(value: Any) -> str:
    """A field's value for people."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return str(np.float32(value))
    if isinstance(value, tuple):
        return f"[{', '.join(text(each) for each in value)}]"
    if isinstance(value, ScaleBias):
        return f"scale {text(value.scale)}, bias {text(value.bias)}"
    if isinstance(value, FusedActivation):
        fields = ", ".join(f"{name} {text(each)}" for name, each in value.attributes.items())
        return f"{value.name} ({fields})" if fields else value.name
    return str(value)


def short(desc: TensorDesc) -> str:
    return f"{desc.dtype} [{','.join(map(str, desc.sizes))}]"


def whole(desc: TensorDesc) -> str:
    return f"{desc}, {desc.total_bytes:,} bytes"


def tensor_rows(desc: TensorDesc) -> Iterator[tuple[str, str]]:
    yield "dtype", str(desc.dtype)
    yield "sizes", text(desc.sizes)
    yield "strides", "packed" if desc.strides is None else text(desc.strides)
    yield "owned by DirectML", text(desc.owned)
    yield "bytes", f"{desc.total_bytes:,}"


def values(data: np.ndarray[Any, Any]) -> str:
    shown = ", ".join(str(each) for each in data.flat[:VALUES])
    return f"{shown}, …" if data.size > VALUES else shown


# Boxes.


def columns(text: str) -> int:
    """The width of a text in columns: two for a wide character."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def cut(line: str) -> str:
    """A line of a box: at most LONGEST columns, without the middle of longer ones."""
    if columns(line) <= LONGEST:
        return line
    head, tail = line[: len(line) // 2], line[len(line) // 2 :]
    while columns(head) + columns(tail) > LONGEST - 1:
        head, tail = (head[:-1], tail) if columns(head) >= columns(tail) else (head, tail[1:])
    return f"{head}…{tail}"


def field_lines(operator: Operator) -> list[str]:
    """The fields of an operator that a box shows, as many in a line as fit: those that are not as usual."""
    lines: list[str] = []
    for field in _notable(operator):
        if lines and columns(lines[-1] + BETWEEN + field) <= LONGEST:
            lines[-1] += BETWEEN + field
        else:
            lines.append(field)
    return lines


def _notable(operator: Operator) -> Iterator[str]:
    if isinstance(operator, FilteredWindows):
        yield f"window {_by(operator.filter.sizes[2:])}"
    for field, value in operator.attributes.items():
        member = operator.fields[field]
        if not _is_usual(member, value):
            yield f"{field} {_by(value) if member.entries else text(value)}"


def _is_usual(member: FieldMember, value: Any) -> bool:
    if value is None or value == member.default or member.kind in UNTOLD or value == USUAL.get(member.field):
        return True
    return member.entries is not None and all(entry == member.entries.default for entry in value)


def _by(numbers: tuple[Any, ...]) -> str:
    """One number for each dimension, as in 3×3."""
    return "×".join(map(text, numbers))
