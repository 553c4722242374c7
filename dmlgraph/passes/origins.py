"""Origins: which nodes of the source graph went into each node of a draft."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _Origin:
    """Nodes of the source graph, and what else went in.  Thousands of rewrites in a row share their past."""

    names: tuple[str, ...]
    before: tuple[_Origin, ...] = ()

    def __iter__(self) -> Iterator[str]:
        """The names, the first to go in first; of those that went in twice, the first time."""
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
    """Node → the nodes of the source graph that went into it.  To note a rewrite takes as long as its own nodes."""

    def __init__(self) -> None:
        self._origins: dict[str, _Origin] = {}  # of nodes that a rewrite touched: another is its own origin

    def _of(self, name: str) -> _Origin:
        return self._origins.get(name) or _Origin((name,))

    def replace(self, gone: Sequence[str], standing: Iterable[str], came: Iterable[str]) -> None:
        """What went into the nodes that are gone went into those that stand there now, some of which came with it."""
        merged = tuple(self._of(each) for each in gone)
        for each in gone:
            self._origins.pop(each, None)
        new = set(came)
        for each in dict.fromkeys(standing):
            before = () if each in new else (self._of(each),)
            self._origins[each] = _Origin((), before + merged)

    def of(self, nodes: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Node → names, of some nodes."""
        return {name: tuple(self._origins.get(name, (name,))) for name in nodes}

    def __iter__(self) -> Iterator[str]:
        """The nodes that a rewrite touched."""
        return iter(self._origins)
