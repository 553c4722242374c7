"""What tests expect of an error: its code and its place, never its sentence.

with raises(dg.GraphError, "sizes", node="s", field="next", got=[2, 3]):
    graph.update(s, x)

docs/errors.md shows one sentence of each code; the examples in tools/generators/error_examples.py make it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TypedDict, TypeVar, Unpack

import pytest

import dmlgraph as dg

E = TypeVar("E", bound=dg.DmlGraphError)


class Fields(TypedDict, total=False):
    """The fields of a problem that a test states; the others may be anything."""

    node: str | None
    field: str | None
    got: object
    allowed: str | None
    hint: str | None


def expect(error: dg.DmlGraphError | dg.Problem, code: str, **fields: Unpack[Fields]) -> None:
    """Asserts the code and the fields of a problem, or of an error's first one."""
    assert {name: getattr(error, name) for name in ("code", *fields)} == {"code": code, **fields}


@contextlib.contextmanager
def raises(kind: type[E], code: str, **fields: Unpack[Fields]) -> Iterator[pytest.ExceptionInfo[E]]:
    """As `pytest.raises`: an error of this class, whose first problem has this code and these fields."""
    with pytest.raises(kind) as caught:
        yield caught
    expect(caught.value, code, **fields)
