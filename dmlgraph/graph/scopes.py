"""Scopes: prefixes of the names that a graph's builder gives.

with g.scope("encoder"):
    with g.scope("0"):
        w = g.constant("w", weights)    # encoder/0/w
        h = dg.gemm(x, w)               # encoder/0/gemm
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Protocol

from dmlgraph.base.errors import GraphError

SEPARATOR = "/"
AGAIN = "gradient/again"  # of nodes that repeat others, so that no memory must keep what those compute


class Scoped(Protocol):
    """What has scopes: a graph, with its `Names`."""

    name: str
    names: Any


class Scope:
    """A scope of a graph as a context manager; `with` gives its whole name, `encoder/0`.

    A scope is entered and left as often as is wanted.  Leaving it, by an exception too, takes away its own part only,
    so that scopes of generators, which may not be left in the reverse order, do not change those of others.
    """

    def __init__(self, graph: Scoped, name: str) -> None:
        self.graph, self.name = graph, name

    def __enter__(self) -> str:
        names = self.graph.names
        names.scopes = (*names.scopes, self)
        whole: str = names.in_scope("")
        return whole.removesuffix(SEPARATOR)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        names = self.graph.names
        last = len(names.scopes) - 1 - names.scopes[::-1].index(self)
        names.scopes = names.scopes[:last] + names.scopes[last + 1 :]

    def __repr__(self) -> str:
        return f"<Scope {self.name} of {self.graph.name}>"


def is_again(name: str) -> bool:
    """Whether a node computes again what another one does, and is not to be that one."""
    return name.startswith(f"{AGAIN}{SEPARATOR}") or f"{SEPARATOR}{AGAIN}{SEPARATOR}" in name


def check_scope(name: object) -> None:
    """Refuses what cannot stand before the names in a scope.

    Raises:
        GraphError: it is not printable text, or one of the names between its `/` is empty or ends in a space.
    """
    parts = name.split(SEPARATOR) if isinstance(name, str) else [""]
    if not all(part and part == part.strip() and part.isprintable() for part in parts):
        raise GraphError(
            "is not the name of a scope",
            code="name",
            got=name,
            allowed="printable text, such as 'encoder' or 'encoder/0'",
        )
