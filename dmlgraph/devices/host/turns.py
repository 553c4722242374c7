"""A lock that lets those who asked first go first, also if they asked for another thread and a later time."""

from __future__ import annotations

import collections
import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator

from dmlgraph.devices.host.forks import PerProcess
from dmlgraph.devices.host.interrupts import ready_for_signals


class Turns(PerProcess):
    """A lock with a line of those who will take it later.  A thread that has it may take it again.

    Attributes:
        busy: another lock, for work that may still go on after its turn.
    """

    def renew(self) -> None:
        self.busy = threading.Lock()
        self._lock = threading.RLock()  # native, so that no signal comes between taking it and giving it back
        self._changed = threading.Condition(threading.Lock())
        self._line: collections.deque[Place] = collections.deque()
        self._numbers = itertools.count()

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """Takes the lock after all who are in the line now."""
        # Whether this thread has it is what Condition asks, too.
        if self._line and not self._lock._is_owned():  # type: ignore[attr-defined]
            now = next(self._numbers)
            self._wait(lambda: not self._line or self._line[0].number > now)
        with self._lock:
            yield

    def place(self) -> Place:
        """The next place in the line, for any thread."""
        with self._changed:
            place = Place(self, next(self._numbers))
            self._line.append(place)
            return place

    @contextlib.contextmanager
    def taken_by(self, place: Place) -> Iterator[None]:
        """Takes the lock when the place is the first, and leaves the line."""
        try:
            self._wait(lambda: self._line[0] is place)
            with self._lock:
                place.leave()
                yield
        finally:
            place.leave()

    def leave(self, place: Place) -> None:
        with self._changed:
            if place in self._line:
                self._line.remove(place)
                self._changed.notify_all()

    def _wait(self, condition: Callable[[], bool]) -> None:
        with self._changed:
            ready_for_signals(lambda seconds: self._changed.wait_for(condition, seconds))


class Place:
    """A place in a line; lower numbers go first."""

    def __init__(self, turns: Turns, number: int) -> None:
        self._turns, self.number = turns, number

    def taken(self) -> contextlib.AbstractContextManager[None]:
        """Takes the lock when all before it have had their turn."""
        return self._turns.taken_by(self)

    def leave(self) -> None:
        """Leaves the line, if it is still in it."""
        self._turns.leave(self)
