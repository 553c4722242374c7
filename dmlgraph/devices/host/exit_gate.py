"""Makes Python wait at exit for daemon threads that are compiling graphs.

Before version 3.14, Python ends a daemon thread at exit by unwinding its stack.  Pydantic calls Python and is called
by it, and cannot be unwound: the process would abort.
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

_MOST_SECONDS = 10.0  # the longest wait at exit


class _Gate:
    """Counts the threads inside; once Python exits, it admits only the thread that ends Python."""

    def __init__(self) -> None:
        self.open()

    def open(self) -> None:
        """Starts with no thread inside: at import, and in a forked process, which has none of the threads."""
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
    """Wraps a function so that Python does not exit in the middle of it; threads that call it during exit sleep."""

    @functools.wraps(function)
    def run(*arguments: P.args, **named: P.kwargs) -> T:
        with _gate.inside():
            return function(*arguments, **named)

    return run
