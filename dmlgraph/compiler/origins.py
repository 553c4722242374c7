"""Origins: which nodes of the source graph went into each node of an IR."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _Origin:
    """Nodes of the source graph, and earlier origins.  Thousands of rewrites in a row share their history."""

    names: tuple[str, ...]
    before: tuple[_Origin, ...] = ()

    def __iter__(self) -> Iterator[str]:
        """The names in the order in which they went in, each once."""
        found: dict[str, None] = {}
        seen: set[int] = set()
        waiting = [self]
        while waiting:
            origin = waiting.pop()
            if id(origin) not in seen:
                seen.add(id(origin))
                found.update(dict.fromkeys(origin.names))
                waiting.extend(reversed(origin.before))
        return iter(found)


class Origins:
    """Node → the nodes of the source graph that went into it.  Recording a rewrite takes time proportional to its own
    nodes."""

    def __init__(self) -> None:
        self._origins: dict[str, _Origin] = {}  # of nodes that a rewrite touched: every other node is its own origin

    def start(self, origins: Mapping[str, tuple[str, ...]]) -> None:
        """Sets the origins of nodes that are not in the source graph."""
        self._origins = {name: _Origin(names) for name, names in origins.items()}

    def _of(self, name: str) -> _Origin:
        return self._origins.get(name) or _Origin((name,))

    def replace(self, gone: Sequence[str], standing: Iterable[str], came: Iterable[str]) -> None:
        """Moves the origins of removed nodes (`gone`) to their replacements (`standing`); `came` are the new ones of
        these."""
        merged = tuple(self._of(each) for each in gone)
        for each in gone:
            self._origins.pop(each, None)
        new = set(came)
        for each in dict.fromkeys(standing):
            before = () if each in new else (self._of(each),)
            self._origins[each] = _Origin((), before + merged)

    def of(self, nodes: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Node → names, for these nodes."""
        return {name: tuple(self._origins.get(name, (name,))) for name in nodes}

    def __iter__(self) -> Iterator[str]:
        """The nodes that a rewrite touched."""
        return iter(self._origins)
