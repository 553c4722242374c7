"""Unused names."""

from __future__ import annotations

import itertools
from collections.abc import Iterable


class FreeNames:
    """Allocates names, each once."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._next: dict[str, int] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._taken

    def take(self, base: str, endings: Iterable[str] = ("",)) -> str:
        """`base`, `base_1`, `base_2`, …: the first that is free, found in constant time.

        Args:
            base: the preferred name.
            endings: suffixes; the name with each of them must be free, and becomes taken.
        """
        endings = list(endings)
        for index in itertools.count(self._next.get(base, 0)):
            name = f"{base}_{index}" if index else base
            if self._taken.isdisjoint(name + ending for ending in endings):
                self._next[base] = index + 1
                self._taken.update(name + ending for ending in endings)
                return name
        raise AssertionError("unreachable")
