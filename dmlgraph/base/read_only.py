"""Dictionaries that say how to change what they show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn, TypeVar

Key = TypeVar("Key")
Item = TypeVar("Item")


class ReadOnly(dict[Key, Item]):
    """A dictionary of what something has now; changing it would change nothing, and raises a TypeError.

    A copy of it, `dict(…)` or `copy.copy`, is a plain dictionary.

    Args:
        items: what it holds.
        instead: how to change what it shows.
    """

    def __init__(self, items: Mapping[Key, Item], instead: str) -> None:
        super().__init__(items)
        self._instead = instead

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(f"cannot be changed here: {self._instead}")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)
