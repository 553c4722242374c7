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
from typing import Any, Generic, TypeVar

T = TypeVar("T")

# Seconds.
_LONG = 0.02  # what is over sooner need not be interrupted
_GRACE = 0.1  # for work that is asked to end, before the exception goes on without it
_POLL = 0.05  # where a wait does not end for a signal by itself: Windows


class _Job(Generic[T]):
    """Work, and what came of it."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._context = contextvars.copy_context()
        self._value: T
        self._error: BaseException | None = None
        self.done = threading.Lock()
        self.done.acquire()

    def run(self) -> None:
        try:
            self._value = self._context.run(self._work)
        except BaseException as error:
            self._error = error
        finally:
            del self._work  # and what it holds
            self.done.release()

    def result(self) -> T:
        """The value, or the exception, which is forgotten here: its traceback knows the job."""
        error, self._error = self._error, None
        if error is None:
            return self._value
        try:
            raise error
        finally:
            del error


class _Helper:
    """A thread that does one job after the other."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._serve, name="dmlgraph", daemon=True)
        self.thread.start()

    def give(self, job: _Job[Any]) -> None:
        self._jobs.put(job)

    def retire(self) -> None:
        self._jobs.put(None)

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.run()
            del job


class _Helpers:
    """The main thread's: the one it gives work to, and those that may still be at work that was given up."""

    def __init__(self) -> None:
        self.retired: list[threading.Thread] = []
        self._present: _Helper | None = None

    def present(self) -> _Helper:
        if self._present is None:
            self._present = _Helper()
        return self._present

    def retire(self) -> threading.Thread:
        """The thread of the present one, which ends after its work."""
        helper = self.present()
        self._present = None
        self.retired.append(helper.thread)
        helper.retire()
        return helper.thread

    def wait_for_retired(self) -> None:
        while self.retired:
            self.retired[-1].join(_POLL)
            if not self.retired[-1].is_alive():
                self.retired.pop()

    def forget(self) -> None:
        """A forked process has none of the threads."""
        self.retired = []
        self._present = None


_helpers = _Helpers()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_helpers.forget)


def interruptible(work: Callable[[], T], cancel: Callable[[int], None] = lambda thread: None) -> T:
    """The result of `work`, which is done by another thread if this is the main thread.

    Args:
        cancel: asks the work to end, if an exception comes from a signal's handler; it is given the identity of the
            thread that does the work.  Work that goes on nevertheless must not write into what its caller owns.
    """
    if threading.current_thread() is not threading.main_thread() or sys.is_finalizing():
        return work()
    _helpers.wait_for_retired()
    job = _Job(work)
    helper = _helpers.present()
    try:
        helper.give(job)
        while not job.done.acquire(timeout=_POLL):
            pass
    except BaseException:
        thread = _helpers.retire()
        assert thread.ident is not None  # it runs
        cancel(thread.ident)
        thread.join(_GRACE)
        raise
    return job.result()


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
        result = interruptible(work, cancel) if self._may_last or _helpers.retired else work()
        self._may_last = time.perf_counter() - start > _LONG
        return result
