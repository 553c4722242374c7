"""Runs in flight: submitted to an executable, which runs them in threads of its own, and not waited for."""

from __future__ import annotations

import collections
import contextvars
import itertools
import math
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from dmlgraph.base.errors import DeviceError
from dmlgraph.devices.host.forks import PerProcess
from dmlgraph.devices.host.interrupts import ready_for_signals
from dmlgraph.devices.host.turns import Place

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

T = TypeVar("T")
R = TypeVar("R")

_here = threading.local()  # .mark: of the RunsInFlight whose thread this is


class RunsInFlight(PerProcess):
    """The submitted runs of an executable.  They keep it alive; the threads end with the last of them.

    Args:
        at_once: how many runs are worked on at the same time; others wait, in the order of their submission.
    """

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._closed = False
        self._mark = object()  # the threads refer to it, not to this
        super().__init__()

    def renew(self) -> None:
        self._lock = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None

    def submit(self, work: Callable[[], T], place: Callable[[], Place] | None = None) -> Future[T]:
        """Lets another thread do the work, with the caller's context variables.

        Args:
            place: takes the place in a line that the work waits for; places are in the order of submission.

        Raises:
            DeviceError: it is closed.
        """
        context = contextvars.copy_context()
        with self._lock:
            if self._closed:
                raise closed()
            if self._threads is None:
                from concurrent.futures import ThreadPoolExecutor  # takes long to import

                self._threads = ThreadPoolExecutor(self._at_once, "dmlgraph", _begin_thread, (self._mark,))
            if place is None:
                return self._threads.submit(context.run, work)
            taken = place()
            try:
                future = self._threads.submit(context.run, _in_turn, taken, work)
            except BaseException:
                taken.leave()
                raise
            future.add_done_callback(lambda _: taken.leave())  # also if it is cancelled
            return future

    def cancel(self) -> None:
        """Cancels the runs that have not begun.  No more can be submitted."""
        with self._lock:
            self._closed = True
            if self._threads is not None:
                self._threads.shutdown(wait=False, cancel_futures=True)

    def close(self) -> None:
        """Waits until all are done.  No more can be submitted."""
        with self._lock:
            self._closed = True
            threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(wait=getattr(_here, "mark", None) is not self._mark)  # a callback cannot wait for itself


def _begin_thread(mark: object) -> None:
    _here.mark = mark


def closed() -> DeviceError:
    return DeviceError("the executable is closed and cannot run any more", code="closed")


def _in_turn(place: Place, work: Callable[[], T]) -> T:
    with place.taken():
        return work()


class Series:
    """Runs of which no later one begins after one has failed, and none after the series was ended."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._last = math.inf  # the number of the last one that may begin

    def end(self) -> None:
        self._last = -1

    def part(self, work: Callable[[], T]) -> Callable[[], T]:
        """The work, as the next part of the series."""
        number = next(self._numbers)
        return lambda: self._do(number, work)

    def _do(self, number: int, work: Callable[[], T]) -> T:
        if number > self._last:
            from concurrent.futures import CancelledError

            raise CancelledError
        try:
            return work()
        except BaseException:
            self._last = min(self._last, number)
            raise


def in_order(items: Iterable[T], submit: Callable[[T, Series], Future[R]], at_most: int) -> Iterator[R]:
    """The results of submitted items, in order, while later ones are in flight.

    An exception of `items`, of `submit` or of a run is raised in the place of its result; then, and if the caller stops
    early, what has not begun is cancelled, and what has begun is waited for.

    Args:
        at_most: how many items are taken whose results are not.
    """
    series = Series()
    flying: collections.deque[Future[R]] = collections.deque()
    source = iter(items)
    more = True
    try:
        while True:
            while more and len(flying) < at_most:
                more = _take(source, lambda item: submit(item, series), flying)
            if not flying:
                return
            _wait(flying[0])
            yield flying.popleft().result()
    finally:
        series.end()
        for each in flying:
            each.cancel()
        if not isinstance(sys.exception(), KeyboardInterrupt):
            for each in flying:
                _wait(each)


def _take(source: Iterator[T], submit: Callable[[T], Future[R]], flying: collections.deque[Future[R]]) -> bool:
    """Submits the next item; returns whether there may be more."""
    try:
        item = next(source)
    except StopIteration:
        return False
    except Exception as error:
        flying.append(_failed(error))
        return False
    try:
        flying.append(submit(item))
    except Exception as error:
        flying.append(_failed(error))
        return False
    return True


def _failed(error: Exception) -> Future[R]:
    from concurrent.futures import Future

    future: Future[R] = Future()
    future.set_exception(error)
    return future


def _wait(future: Future[R]) -> None:
    """Waits until it is done, ready for signals."""
    from concurrent.futures import wait

    if not future.done():
        ready_for_signals(lambda seconds: not wait([future], seconds).not_done)
