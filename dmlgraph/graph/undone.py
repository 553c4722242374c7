"""Functions that make several nodes: if one of them is refused, none of them stays in the graph."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Undoing(Protocol):
    """A graph."""

    def undoing(self) -> AbstractContextManager[None]: ...


def undone(function: Callable[P, R]) -> Callable[P, R]:
    """A function of values, which leaves their graph as it was if it raises an exception."""

    @functools.wraps(function)
    def call(*arguments: P.args, **keywords: P.kwargs) -> R:
        graph = next(_graphs((*arguments, *keywords.values())), None)
        if graph is None:
            return function(*arguments, **keywords)
        with graph.undoing():
            return function(*arguments, **keywords)

    return call


def _graphs(given: Iterable[Any]) -> Iterator[Undoing]:
    """The graphs of the values among arguments, which may be in lists."""
    for each in given:
        if isinstance(each, (list, tuple)):
            yield from _graphs(each)
        elif hasattr(each, "graph"):
            yield each.graph
