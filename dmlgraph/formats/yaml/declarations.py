"""What graph files and the templates in them have in common: text, versions, the operators of nodes."""

from __future__ import annotations

import functools
import os
import pathlib
from typing import Any

from dmlgraph.base.errors import DocumentError, Location, Problem
from dmlgraph.files.kinds import kind_of_bytes, other_kind
from dmlgraph.files.untrusted import read_file, reason
from dmlgraph.formats.text_tree.tree import Tree
from dmlgraph.operators.catalog.hints import operator_hint
from dmlgraph.operators.catalog.registry import find
from dmlgraph.operators.declaration.operator import Operator

FORMAT_VERSION = 1


def read_text(path: pathlib.Path) -> str:
    """The text of a file.

    Raises:
        DocumentError: it cannot be read, or is not UTF-8.
    """
    try:
        data = read_file(path)
    except OSError as error:
        start = Location(os.fspath(path), 1, 1)
        raise DocumentError(f"cannot read the file: {reason(error)}", code="unreadable", location=start) from None
    return decode(data, os.fspath(path))


def decode(data: bytes, file: str) -> str:
    """The text of a document's bytes; `file` names it in the error.

    Raises:
        DocumentError: not UTF-8, or no document but something else, which is named.
    """
    kind = kind_of_bytes(data)
    if kind is not None:
        raise other_kind(kind, file, "text of YAML or JSON")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DocumentError(
            f"not UTF-8 text: byte {error.object[error.start]:#04x} at {error.start}",
            code="syntax",
            location=Location(file, 1, 1),
        ) from None


def problem_at(message: str, tree: Tree, *, code: str, **fields: Any) -> Problem:
    """A problem at the place of a tree."""
    return Problem(message, code=code, location=tree.location, **fields)


def check_version(version: Tree) -> Problem | None:
    """What is wrong with a file's format version."""
    if version.value == FORMAT_VERSION and not isinstance(version.value, bool):
        return None
    return problem_at(
        "not a format version that this dmlgraph reads",
        version,
        code="version",
        field="dmlgraph",
        got=version.plain,
        allowed=str(FORMAT_VERSION),
        hint="a number, without quotes" if version.value == str(FORMAT_VERSION) else None,
    )


@functools.cache
def node_keys(operator: type[Operator]) -> tuple[str, ...]:
    """The keys that a node of this operator may have."""
    return ("op", *operator.model_fields)


def operator_of(tree: Tree) -> type[Operator] | None:
    """The class of a node's operator; None where no such operator exists."""
    op = tree.value.get("op") if isinstance(tree.value, dict) else None
    return find(op.value) if op is not None and isinstance(op.value, str) else None


def operator_problem(name: str, tree: Tree) -> Problem:
    """What is wrong with the operator of a node that has none."""
    op = tree.value.get("op")
    if op is None:
        return problem_at(
            "the operator is missing",
            tree,
            code="missing",
            node=name,
            field="op",
            hint="such as {op: add, a: x, b: y}",
        )
    return problem_at(
        "is not an operator",
        op,
        code="unknown-operator",
        node=name,
        field="op",
        got=op.plain,
        hint=operator_hint(op.value),
    )
