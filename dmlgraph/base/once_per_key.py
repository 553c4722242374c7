"""OncePerKey: the values that a process used last, each of which is made once."""

from __future__ import annotations

import collections
import os
import threading
import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

V = TypeVar("V")


class _Place(Generic[V]):
    """Where a value will be; its lock is held while the value is made."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.value: V | None = None


class OncePerKey(Generic[V]):
    """At most `most` values by key, those used last; threads that ask for the same value wait until it is made."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._start()
        if hasattr(os, "register_at_fork"):
            # Another thread may hold a lock while this one forks.
            started = weakref.WeakMethod(self._start)
            os.register_at_fork(after_in_child=lambda: (start := started()) and start())

    def _start(self) -> None:
        self._lock = threading.Lock()
        self._places: collections.OrderedDict[str, _Place[V]] = collections.OrderedDict()

    def get(self, key: str, make: Callable[[], V]) -> V:
        """The value of a key, made now if it is not there; what `make` raises is raised, and nothing is kept."""
        with self._lock:
            place = self._places.setdefault(key, _Place())
            self._places.move_to_end(key)
            if len(self._places) > self._most:
                self._places.popitem(last=False)
        with place.lock:
            if place.value is None:
                place.value = make()
            return place.value

    def drop(self, value: V) -> None:
        """Forgets a value, if it is there."""
        with self._lock:
            for key, place in list(self._places.items()):
                if place.value is value:
                    del self._places[key]

    def clear(self) -> None:
        """Forgets all values."""
        with self._lock:
            self._places.clear()

    def __len__(self) -> int:
        with self._lock:
            return sum(place.value is not None for place in self._places.values())
