"""Long native work that Ctrl-C interrupts.

Python handles signals in the main thread, between two instructions of its own: never while that thread is inside a
library.  So what may take long is done by another thread, and the main thread waits for it, ready for signals.  An
exception that a signal's handler raises leaves at once; the work is asked to end, and the next one waits until it has.
"""

from __future__ import annotations

import contextvars
import ctypes
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

# Seconds.
_LONG = 0.02  # what is over sooner need not be interrupted
_GRACE = 0.1  # for work that is asked to end, before the exception goes on without it
_POLL = 0.05  # where a wait does not end for a signal by itself: Windows


class _Job:
    """Work, and what came of it."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self._context = contextvars.copy_context()
        self.done = threading.Lock()
        self.done.acquire()
        self.value: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.value = self._context.run(self._work)
        except BaseException as error:
            self.error = error
        finally:
            del self._work  # and what it holds
            self.done.release()


class _Helper:
    """A thread that does one job after the other."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._serve, name="dmlgraph", daemon=True)
        self.thread.start()

    def give(self, job: _Job) -> None:
        self._jobs.put(job)

    def retire(self) -> None:
        self._jobs.put(None)

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.run()
            del job


_helper: _Helper | None = None
_retired: list[threading.Thread] = []  # which may still be at work that was given up


def _forget() -> None:
    """A forked process has none of the threads."""
    global _helper
    _helper = None
    _retired.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def interruptible(work: Callable[[], T], cancel: Callable[[int], None] = lambda thread: None) -> T:
    """The result of `work`, which is done by another thread if this is the main thread.

    Args:
        cancel: asks the work to end, if an exception comes from a signal's handler; it is given the identity of the
            thread that does the work.  Work that goes on nevertheless must not write into what its caller owns.
    """
    global _helper
    if threading.current_thread() is not threading.main_thread() or sys.is_finalizing():
        return work()
    while _retired:
        _retired[-1].join(_POLL)
        if not _retired[-1].is_alive():
            _retired.pop()
    job = _Job(work)
    helper = _helper = _helper or _Helper()
    try:
        helper.give(job)
        while not job.done.acquire(timeout=_POLL):
            pass
    except BaseException:
        _helper = None
        _retired.append(helper.thread)
        helper.retire()
        assert helper.thread.ident is not None
        cancel(helper.thread.ident)
        helper.thread.join(_GRACE)
        raise
    error, job.error = job.error, None  # whose traceback knows the job
    if error is not None:
        try:
            raise error
        finally:
            del error
    return job.value


def end_python(thread: int) -> None:
    """Ends the Python code that a thread runs, soon."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(SystemExit))


_kept = threading.local()


def keep(error: BaseException) -> None:
    """Keeps an exception that cannot pass through a library, for whoever called the library on this thread."""
    _kept.error = error


def take_kept() -> BaseException | None:
    """The exception that was kept on this thread; it is forgotten here."""
    error: BaseException | None = _kept.__dict__.pop("error", None)
    return error


class Watch:
    """Makes work interruptible that is done again and again, if it takes so long that this matters.

    The first time, and after a time that was long, it is done by another thread.
    """

    def __init__(self) -> None:
        self._may_last = True

    def call(self, work: Callable[[], T], cancel: Callable[[int], None] = lambda thread: None) -> T:
        """The result of `work`, as of `interruptible`."""
        start = time.perf_counter()
        result = interruptible(work, cancel) if self._may_last or _retired else work()
        self._may_last = time.perf_counter() - start > _LONG
        return result
