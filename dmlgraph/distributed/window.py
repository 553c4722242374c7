"""The window of tasks: what a cluster does now of a job, and what is to be done.

The scheduler holds some tasks, each of which has several chunks, so that it does not matter how many there are.
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import dataclasses
import itertools
import math
import os
import queue
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from dmlgraph.base.errors import DeviceError, DmlGraphError
from dmlgraph.distributed.job import Job
from dmlgraph.distributed.progress import Progress
from dmlgraph.distributed.results import Chunk

if TYPE_CHECKING:
    from distributed import Client

TASK_SECONDS = 1.0  # the time that a task should take: it has as many chunks as that needs
TASKS_A_SECOND = 200  # that a scheduler takes without effort: with more threads than that, tasks are longer
MOST_IN_TASK = 500
COUNT_SECONDS = 5.0  # between looks at how many workers there are
AHEAD = 2  # tasks for each thread of the cluster that the scheduler holds


def compute(job: Job, chunks: Sequence[Chunk]) -> tuple[int, float]:
    """The task of a worker: how many of the chunks failed, and how long it took."""
    begin = time.perf_counter()
    failed = sum(job.compute(chunk) is not None for chunk in chunks)
    return failed, time.perf_counter() - begin


@dataclasses.dataclass
class _Group:
    """A folder of chunks: how many are still to do, and whether one failed."""

    names: list[str]
    left: int
    failed: bool = False


class Todo:
    """The chunks still to compute, found folder by folder, and the results of those that were started."""

    def __init__(self, job: Job, progress: Progress) -> None:
        self._job, self._progress = job, progress
        self.left = progress.total  # chunks that nobody has looked at or taken
        self._groups: dict[str, _Group] = {}
        self._missing = self._find()
        self._next: list[Chunk] = []

    def more(self) -> bool:
        """Whether there is another."""
        self._next = self._next or list(itertools.islice(self._missing, 1))
        return bool(self._next)

    def take(self, most: int) -> list[Chunk]:
        """Some of them; none if there are no more."""
        taken, self._next = [*self._next, *itertools.islice(self._missing, most - len(self._next))], []
        self.left -= len(taken)
        return taken

    def _find(self) -> Iterator[Chunk]:
        for folder, chunks in self._job.groups():
            names = [chunk.name for chunk in chunks]
            if self._job.results.complete(folder) >= set(names):
                self._skip(len(chunks))
                continue
            there = self._job.results.there(folder)
            missing = [chunk for chunk in chunks if chunk.name not in there]
            self._skip(len(chunks) - len(missing))
            if not missing:
                self._job.results.finish(folder, names)
                continue
            self._groups[folder] = _Group(names, len(missing))
            yield from missing

    def _skip(self, count: int) -> None:
        self.left -= count
        self._progress.advance(skipped=count)

    def ended(self, chunks: Iterable[Chunk], *, failed: bool) -> None:
        """Notes chunks that were tried; a folder without failures is finished with its last chunk."""
        for chunk in chunks:
            group = self._groups[chunk.folder]
            group.left -= 1
            group.failed |= failed
            if not group.left:
                del self._groups[chunk.folder]
                if not group.failed:
                    self._job.results.finish(chunk.folder, group.names)


class Window:
    """Keeps a cluster busy: some tasks ahead, each with the chunks of about a second, and with fewer at the end."""

    def __init__(self, client: Client, job: Job, progress: Progress, todo: Todo) -> None:
        self._client, self._job, self._progress, self._todo = client, job, progress, todo
        self._ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._running: dict[str, tuple[Any, list[Chunk]]] = {}
        self._alone: collections.deque[Chunk] = collections.deque()  # one of them may have ended a worker
        self._seconds = TASK_SECONDS  # of a chunk, as far as it is known
        self._most, self._counted = 1, -math.inf  # how many tasks may run, and when that was found out
        self._aim = TASK_SECONDS  # how long a task should take

    def run(self) -> None:
        """Runs all chunks that are missing.

        Raises:
            DeviceError: the scheduler is lost, or the device is missing on a worker.
        """
        from distributed.comm import CommClosedError

        key = f"dmlgraph-job-{self._job.runner.recipe.key[:12]}-{os.urandom(4).hex()}"
        sent = self._client.submit(_itself, self._job, key=key)  # of which workers get it, each once
        try:
            while True:
                self._fill(sent)
                if not self._running:
                    return
                self._take(self._next())
        except (CommClosedError, concurrent.futures.CancelledError) as error:
            raise self._lost(error) from None
        finally:
            with contextlib.suppress(Exception):
                self._client.cancel([sent, *(future for future, _ in self._running.values())])

    def _fill(self, sent: Any) -> None:
        if time.monotonic() > self._counted + COUNT_SECONDS:
            self._counted = time.monotonic()
            threads = max(1, sum(self._client.nthreads().values()))
            self._most, self._aim = AHEAD * threads, max(TASK_SECONDS, threads / TASKS_A_SECOND)
        while len(self._running) < self._most:
            if self._alone:
                batch = [self._alone.popleft()]
            else:
                size = min(MOST_IN_TASK, int(self._aim / max(self._seconds, 1e-6)))
                # The last tasks are small, so that all workers end at the same time.
                share = math.ceil(self._todo.left / (2 * self._most))
                batch = self._todo.take(max(1, min(size, share)))
            if not batch:
                return
            future = self._client.submit(compute, sent, batch, pure=False)
            self._running[future.key] = future, batch
            future.add_done_callback(self._ended.put)

    def _next(self) -> Any:
        """The next task that has ended."""
        while True:
            try:
                return self._ended.get(timeout=1)
            except queue.Empty:
                if self._client.status != "running":
                    raise self._lost(self._client.status) from None

    def _take(self, future: Any) -> None:
        """Notes what became of a task."""
        from distributed.scheduler import KilledWorker

        if future.status in ("lost", "pending"):  # its worker died with the result: the scheduler computes it again
            future.add_done_callback(self._ended.put)
            return
        _, batch = self._running.pop(future.key)
        if future.status == "cancelled":
            raise self._lost(future.status)
        try:
            failed, seconds = future.result()
        except KilledWorker as error:
            if len(batch) > 1:
                self._alone.extend(batch)
                return
            self._job.results.fail(batch[0], error)
            failed, seconds = 1, TASK_SECONDS
        self._seconds = 0.7 * self._seconds + 0.3 * seconds / len(batch)
        self._progress.advance(len(batch) - failed, failed)
        self._todo.ended(batch, failed=failed > 0)

    def _lost(self, why: object) -> DmlGraphError:
        return DeviceError(
            f"the scheduler is lost: {why}",
            code="cluster",
            hint="what is done stays: started again, the job goes on",
        )


def _itself(job: Job) -> Job:
    return job
