"""NumPy's BLAS, called from the device's own threads.

BLAS libraries have threads of their own, which ignore `threads=` and wait for one another by spinning: beside another
busy process a product takes a hundred times as long.  So BLAS gets one thread while a step runs, and `multiply` shares
the blocks of a product between the threads of the run.

BLAS has one thread count for the whole process.  It is 1 while Python steps run on any thread, and is restored when the
last of them has ended: outside of runs NumPy has all its threads; during a step NumPy has one on other threads too.
A BLAS built on OpenMP has a thread count for each calling thread instead, the pool's threads included: it is left
unchanged, and shares its work itself (OMP_NUM_THREADS).
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import threadpoolctl  # type: ignore[import-untyped]

from dmlgraph import _native
from dmlgraph.operators.declaration.operator import Array


class _OneThread:
    """Limits BLAS to one thread from the beginning of the first step until the last one has ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside: set[int] = set()  # threads in a step; one that an interrupt leaves here goes with its next step
        self._before: list[tuple[Library, int]] = []  # the thread counts to restore

    def enter(self) -> None:
        with self._lock:
            self._inside.add(threading.get_ident())
            if not self._before:
                self._before = [(library, library.get_threads()) for library in libraries()]
                for library, _ in self._before:
                    library.set_threads(1)

    def leave(self) -> None:
        with self._lock:
            self._inside.discard(threading.get_ident())
            if not self._inside:
                self._restore()

    def forget(self) -> None:
        """Called in a forked process, which has none of the other threads."""
        self._lock = threading.Lock()
        self._inside.clear()
        self._restore()

    def _restore(self) -> None:
        before, self._before = self._before, []
        for library, count in before:
            if library.get_threads() == 1:  # else other code has set it meanwhile
                library.set_threads(count)


@dataclasses.dataclass(frozen=True, slots=True)
class Library:
    """A loaded BLAS library.

    Its own functions are called, because those of threadpoolctl have an effect only on the thread that first set a
    limit.
    """

    get_threads: Callable[[], int]
    set_threads: Callable[[int], object]


_FUNCTIONS = {
    "openblas": ("openblas_get_num_threads", "openblas_set_num_threads"),
    "mkl": ("MKL_Get_Max_Threads", "MKL_Set_Num_Threads"),
    "blis": ("bli_thread_get_num_threads", "bli_thread_set_num_threads"),
}
_PREFIXES, _SUFFIXES = ("", "scipy_"), ("", "64_", "_64")  # of builds made to coexist with others in a process


@functools.cache
def libraries() -> tuple[Library, ...]:
    """The BLAS that NumPy uses; if it cannot be told from others, all that are loaded.

    Empty if the BLAS has no thread count for the whole process, as Accelerate and builds on OpenMP.
    """
    found = threadpoolctl.ThreadpoolController().select(user_api="blas").lib_controllers
    own = [each for each in found if "numpy" in each.filepath.lower()] or found
    if any(getattr(each, "threading_layer", None) == "openmp" for each in own):
        return ()
    return tuple(library for each in own if (library := _library(each)) is not None)


def _library(controller: Any) -> Library | None:
    get, set_ = _FUNCTIONS.get(controller.internal_api, ("", ""))
    for prefix, suffix in itertools.product(_PREFIXES, _SUFFIXES):
        if get and hasattr(controller.dynlib, f"{prefix}{get}{suffix}"):
            return Library(*(getattr(controller.dynlib, f"{prefix}{name}{suffix}") for name in (get, set_)))
    return None


class _Team(threading.local):
    """The number of threads that share the products of the step on this thread."""

    threads = 1


_one_thread = _OneThread()
_team = _Team()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_one_thread.forget)


@contextlib.contextmanager
def step(threads: int) -> Iterator[None]:
    """Within the context BLAS has one thread, and `multiply` uses up to `threads` threads."""
    _team.threads = threads if libraries() else 1
    try:
        _one_thread.enter()
        yield
    finally:
        _one_thread.leave()


def multiply(a: Array, b: Array, out: Array | None = None) -> Array:
    """a {…, M, K} · b {…, K, N}, both float32 or both float64; batches broadcast.

    The results are the same for any number of threads.  BLAS takes matrices whose rows or columns are packed; others
    are slow.
    """
    if out is None:
        batch = a.shape[:-2] if a.shape[:-2] == b.shape[:-2] else np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        out = np.empty((*batch, a.shape[-2], b.shape[-1]), a.dtype)
    _native.cpu_multiply(a, b, out, _team.threads)
    return out
