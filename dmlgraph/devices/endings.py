"""The end of Python while daemon threads compile graphs: what they are at is waited for.

Before version 3.14 Python ends a thread that runs Python code then by unwinding its stack.  Pydantic, which is called
and calls Python meanwhile, cannot be unwound: the process would abort.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_MOST_SECONDS = 10.0  # to wait


class _Gate:
    """Counts the threads inside, and in the end lets only the one in that ends Python."""

    def __init__(self) -> None:
        self.open()

    def open(self) -> None:
        """With nobody inside: in the beginning, and in a forked process, which has none of the threads."""
        self._changed = threading.Condition()
        self._inside = 0
        self._ending: threading.Thread | None = None

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        with self._changed:
            shut = self._ending is not None and self._ending is not threading.current_thread()
            self._inside += not shut
        while shut:
            time.sleep(1)
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    def shut(self) -> None:
        with contextlib.suppress(KeyboardInterrupt), self._changed:
            self._ending = threading.current_thread()
            self._changed.wait_for(lambda: self._inside == 0, _MOST_SECONDS)


_gate = _Gate()
atexit.register(_gate.shut)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_gate.open)


def finishing(function: Callable[P, T]) -> Callable[P, T]:
    """A function that Python does not end in the middle of; a thread that calls it when Python ends rests."""

    @functools.wraps(function)
    def run(*arguments: P.args, **named: P.kwargs) -> T:
        with _gate.inside():
            return function(*arguments, **named)

    return run
