"""Names that nothing has yet."""

from __future__ import annotations

import itertools
from collections.abc import Iterable


class FreeNames:
    """Gives names away, each once."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._next: dict[str, int] = {}

    def take(self, base: str, endings: Iterable[str] = ("",)) -> str:
        """`base`, `base_1`, `base_2`, …: the first that is free, found in constant time.

        Args:
            base: the name that is wished for.
            endings: what is written behind the name; all that comes of it must be free, and is taken.
        """
        endings = list(endings)
        for index in itertools.count(self._next.get(base, 0)):
            name = f"{base}_{index}" if index else base
            if self._taken.isdisjoint(name + ending for ending in endings):
                self._next[base] = index + 1
                self._taken.update(name + ending for ending in endings)
                return name
        raise AssertionError("unreachable")
