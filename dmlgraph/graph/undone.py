"""Functions that make several nodes: if one of them is refused, none of them stays in the graph."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from dmlgraph.graph.graph import Graph

P = ParamSpec("P")
R = TypeVar("R")


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


def _graphs(given: Iterable[Any]) -> Iterator[Graph]:
    """The graphs of the values among arguments, which may be in lists."""
    from dmlgraph.graph.value import Value

    for each in given:
        if isinstance(each, Value):
            yield each.graph
        elif isinstance(each, (list, tuple)):
            yield from _graphs(each)
