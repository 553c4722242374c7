"""Long native work that Ctrl-C interrupts.

Python handles signals in the main thread, between two Python instructions: never while that thread is inside a
library.  So another thread does work that may take long, and the main thread waits for it, ready for signals.  An
exception that a signal handler raises propagates at once; the work is asked to end, and the next work waits until it
has ended.
"""

from __future__ import annotations

import _imp
import contextlib
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
_LONG = 0.02  # shorter work need not be interruptible
_GRACE = 0.1  # how long work that is asked to end may delay the exception
_POLL = 0.05  # on Windows a signal does not end a wait


class _Job(Generic[T]):
    """Work and its result."""

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
            del self._work  # and the objects it refers to
            self.done.release()

    def result(self) -> T:
        """Returns the value or raises the exception, and forgets the exception: its traceback refers to the job."""
        error, self._error = self._error, None
        if error is None:
            return self._value
        try:
            raise error
        finally:
            del error


class _Helper:
    """A thread that does one job after another."""

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
    """The helpers of the main thread: the present one, and retired ones that may still be doing abandoned work."""

    def __init__(self) -> None:
        self.retired: list[threading.Thread] = []
        self._present: _Helper | None = None

    def present(self) -> _Helper:
        if self._present is None:
            self._present = _Helper()
        return self._present

    def retire(self) -> threading.Thread:
        """Makes the present helper end after its current work, and returns its thread."""
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
        """Forgets all helpers: a forked process has none of their threads."""
        self.retired.clear()
        self._present = None


_helpers = _Helpers()
abandoned = _helpers.retired  # always this list: native code keeps it
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_helpers.forget)


def ready_for_signals(wait: Callable[[float], bool]) -> None:
    """Waits so that a signal handler can raise its exception: calls `wait`, with seconds, until it returns True."""
    while not wait(_POLL):
        pass


def interruptible(work: Callable[[], T], cancel: Callable[[int], None] = lambda thread: None) -> T:
    """Returns the result of `work`, which another thread does if this is the main thread.

    Args:
        cancel: asks the work to end if a signal handler raises an exception; its argument is the identity of the
            thread that does the work.  Work that continues must not write into memory of its caller.
    """
    if threading.current_thread() is not threading.main_thread() or sys.is_finalizing():
        return work()
    _helpers.wait_for_retired()
    _free_import_lock()
    job = _Job(work)
    helper = _helpers.present()
    try:
        helper.give(job)
        ready_for_signals(lambda seconds: job.done.acquire(timeout=seconds))
    except BaseException:
        thread = _helpers.retire()
        assert thread.ident is not None  # it is running
        cancel(thread.ident)
        thread.join(_GRACE)
        raise
    return job.result()


def _free_import_lock() -> None:
    """Frees what an import leaves locked that a signal ends: the work may import, and would wait for ever.

    Python's importlib takes its lock, which no other thread has for long, some instructions before it sees to its end.
    """
    with contextlib.suppress(RuntimeError):  # this thread has not locked it
        while True:
            _imp.release_lock()


def end_python(thread: int) -> None:
    """Makes the Python code that a thread runs end soon."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(SystemExit))


_kept = threading.local()


def keep(error: BaseException) -> None:
    """Keeps an exception that cannot pass through a library, for the caller of the library on this thread."""
    _kept.error = error


def take_kept() -> BaseException | None:
    """Returns and forgets the exception that was kept on this thread; returns None if none was kept."""
    error: BaseException | None = _kept.__dict__.pop("error", None)
    return error


class Watch:
    """Makes repeated work interruptible if it takes long enough for this to matter.

    Another thread does it the first time, and whenever it took long the time before.
    """

    def __init__(self) -> None:
        self._may_last = True

    def call(self, work: Callable[[], T], cancel: Callable[[int], None] = lambda thread: None) -> T:
        """Returns the result of `work`, as `interruptible` does."""
        start = time.perf_counter()
        result = interruptible(work, cancel) if self._may_last or abandoned else work()
        self._may_last = time.perf_counter() - start > _LONG
        return result
