"""What one scheduler can serve: its cost per task, measured here, and a job of 10^7 chunks on 1,000 workers, simulated.

    python benchmarks/scheduler_scale.py [--tasks 3000] [--workers 1000] [--chunks 10000000] [--json|--constants FILE]

The first table is measured with a real scheduler, a real client and workers whose tasks do nothing, each in a process
of its own; what these processes take while they wait is subtracted.  As many tasks are on the scheduler as 250 workers
would have.  A task carries a list of chunks, as those of `run_chunks` do.  The second table is a simulation with these
constants: a client that keeps a window of tasks on the scheduler, a scheduler that handles one event at a time, and
workers with one thread.

busy        the part of the time in which the scheduler computes
lost        the part of the workers' time in which they wait, or do what Dask needs
least batch the fewest chunks in a task with which less than 10 % are lost
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import heapq
import json
import os
import pathlib
import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any

import psutil
from distributed import Client, SubprocessCluster, as_completed

# As in dmlgraph/distributed/window.py.
AHEAD = 2  # tasks for each thread of the cluster that the scheduler holds
IN_FOLDER = 1000  # chunks of a folder with one manifest
MOST_IN_TASK = 500

WINDOW = 500  # tasks on the scheduler while it is measured
IDLE = 3.0  # seconds in which waiting is measured
BATCHES = (1, 16, 128, MOST_IN_TASK)
SECONDS = (0.005, 0.05, 0.5, 5.0)  # that a chunk takes
MOST_SIMULATED = 150_000  # tasks; a longer job is the same for longer
MOST_LOST = 0.1


@dataclasses.dataclass(frozen=True)
class Costs:
    """What a task with a number of chunks costs.

    Attributes:
        scheduler, client, worker: processor seconds.
        bytes: through the scheduler, in both directions.
        rate: tasks per second with two workers.
    """

    scheduler: float
    client: float
    worker: float
    bytes: float
    rate: float


@dataclasses.dataclass(frozen=True)
class Constants:
    """What is measured.

    Attributes:
        small, large: tasks with one chunk and with MOST_IN_TASK.
        memory: bytes on the scheduler for a task that waits.
        latency: seconds from the client to a worker and back.
        manifest: seconds to read the manifest of a folder.
        scan: seconds to list the files of a folder.
    """

    small: Costs
    large: Costs
    memory: float
    latency: float
    manifest: float
    scan: float

    def of(self, batch: int) -> Costs:
        """The costs of a task with a number of chunks: between the two measured, or beyond, on a line."""
        part = (batch - 1) / (MOST_IN_TASK - 1)
        values = {
            field.name: getattr(self.small, field.name)
            + part * (getattr(self.large, field.name) - getattr(self.small, field.name))
            for field in dataclasses.fields(Costs)
        }
        return Costs(**{name: max(value, getattr(self.small, name) * 0.01) for name, value in values.items()})


def nothing(chunks: Sequence[Any]) -> tuple[int, float]:
    """The task: does nothing, and says as much as that of `run_chunks`."""
    return len(chunks), 0.0


def chunks(count: int, first: int) -> list[tuple[str, str, dict[str, tuple[int, int]]]]:
    """What a task gets for each chunk: folder, name and place."""
    every = range(first, first + count)
    return [(f"{i // IN_FOLDER:05d}", f"{i:09d}-{i * 7919:016x}", {"batch": (i * 64, i * 64 + 64)}) for i in every]


# Measuring.


def _sent() -> int:
    """On the scheduler: the bytes that it has sent."""
    from distributed.scheduler import Scheduler

    return _of_instances(Scheduler, lambda it: [*it.stream_comms.values(), *it.client_comms.values()])


def _of_instances(kind: type, streams: Any) -> int:
    (it,) = kind._instances
    return sum(each.byte_count for each in streams(it))


def _sent_by_worker(dask_worker: Any) -> int:
    return int(dask_worker.batched_stream.byte_count)


class Measured:
    """A client of a cluster whose scheduler and workers are processes of their own."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.scheduler = psutil.Process(client.run_on_scheduler(os.getpid))
        self.workers = [psutil.Process(pid) for pid in client.run(os.getpid).values()]
        before, begin = self._times(), time.perf_counter()
        time.sleep(IDLE)
        took = time.perf_counter() - begin
        self.idle = [(after - first) / took for first, after in zip(before, self._times(), strict=True)]

    def costs(self, tasks: int, batch: int, window: int) -> Costs:
        """The costs of tasks of which a window is on the scheduler."""
        before, bytes_before, begin = self._times(), self._bytes(), time.perf_counter()
        left = iter(range(tasks))
        running = as_completed([self._submit(i, batch) for i, _ in zip(left, range(window), strict=False)])
        for _ in running:
            index = next(left, None)
            if index is not None:
                running.add(self._submit(index, batch))
        took = time.perf_counter() - begin
        used = [
            max(0.0, after - first - idle * took) / tasks
            for first, after, idle in zip(before, self._times(), self.idle, strict=True)
        ]
        return Costs(*used, (self._bytes() - bytes_before) / tasks, tasks / took)

    def _submit(self, index: int, batch: int) -> Any:
        return self.client.submit(nothing, chunks(batch, index * batch), pure=False)

    def _times(self) -> tuple[float, float, float]:
        """Processor seconds of scheduler, client and workers."""
        scheduler, client, *workers = (
            sum(each.cpu_times()[:2]) for each in (self.scheduler, psutil.Process(), *self.workers)
        )
        return scheduler, client, sum(workers)

    def _bytes(self) -> int:
        sent: int = self.client.run_on_scheduler(_sent)
        sent += sum(self.client.run(_sent_by_worker).values())
        return sent + int(self.client.scheduler_comm.byte_count)

    def memory(self, tasks: int) -> float:
        """Bytes of the scheduler for each task that waits."""
        before = self.scheduler.memory_info().rss
        waiting = [self.client.submit(nothing, chunks(1, i), pure=False, resources={"none": 1}) for i in range(tasks)]
        while self.client.run_on_scheduler(_task_count) < tasks:
            time.sleep(0.1)
        used = (self.scheduler.memory_info().rss - before) / tasks
        del waiting
        return used

    def latency(self, repeats: int = 100) -> float:
        """Seconds of a task alone, from the client to a worker and back, on a machine that has nothing else to do."""
        taken = []
        for index in range(repeats):
            begin = time.perf_counter()
            self._submit(index, 1).result()
            taken.append(time.perf_counter() - begin)
        return statistics.quantiles(taken, n=10)[0]


def _task_count() -> int:
    from distributed.scheduler import Scheduler

    (it,) = Scheduler._instances
    return len(it.tasks)


def folders() -> tuple[float, float]:
    """Seconds to read the manifest of a folder, and to list its files instead; the medians."""
    manifest, scan = [], []
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        names = [f"{i:09d}-{i * 7919:016x}" for i in range(IN_FOLDER)]
        (folder / "done.json").write_text(json.dumps(names), "utf-8")
        for name in names:
            (folder / f"{name}.npy").touch()
        for _ in range(50):
            begin = time.perf_counter()
            json.loads((folder / "done.json").read_text("utf-8"))
            manifest.append(time.perf_counter() - begin)
            begin = time.perf_counter()
            sum(each.is_file() for each in os.scandir(folder))
            scan.append(time.perf_counter() - begin)
    return statistics.median(manifest), statistics.median(scan)


def measure(tasks: int) -> Constants:
    manifest, scan = folders()
    os.environ["DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED"] = "False"  # as in dmlgraph/distributed/cluster.py
    with (
        SubprocessCluster(
            n_workers=2, threads_per_worker=1, worker_class="distributed.Worker", dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(2)
        here = Measured(client)
        here.costs(WINDOW, 1, WINDOW)  # everything is imported, and every connection is there
        latency = here.latency()
        small = here.costs(tasks, 1, WINDOW)
        large = here.costs(max(WINDOW, tasks // 5), MOST_IN_TASK, WINDOW)
        memory = here.memory(4 * tasks)
    return Constants(small, large, memory, latency, manifest, scan)


# Simulating.


@dataclasses.dataclass(frozen=True)
class Outcome:
    """A job: seconds in all, and the parts of them in which the scheduler was busy and workers were not."""

    seconds: float
    busy: float
    lost: float
    bytes_per_second: float


def simulate(constants: Constants, workers: int, count: int, batch: int, seconds: float) -> Outcome:
    """A job of `count` chunks that take `seconds` each, `batch` of them in a task.

    Client and scheduler are servers with one queue each.  The scheduler handles a task twice, when it is submitted and
    when it is done; then the client submits another.  A worker has up to AHEAD tasks.
    """
    costs = constants.of(batch)
    tasks = -(-count // batch)
    simulated = min(tasks, MOST_SIMULATED)
    travel = max(0.0, constants.latency - costs.scheduler - costs.client - costs.worker) / 4  # one way
    rng = random.Random(0)
    free = collections.deque(worker for _ in range(AHEAD) for worker in range(workers))  # places for tasks
    idle_at = [0.0] * workers
    client = scheduler = busy = end = 0.0
    submitted = 0
    events: list[tuple[float, int, int]] = []  # when, what (0 to submit, 1 at the scheduler, 2 done), on which worker
    for index in range(min(simulated, AHEAD * workers)):
        heapq.heappush(events, (0.0, 0, index))
    while events:
        now, what, worker = heapq.heappop(events)
        if what == 0:
            if submitted == simulated:
                continue
            submitted += 1
            client = max(now, client) + costs.client
            heapq.heappush(events, (client + travel, 1, 0))
        elif what == 1:
            scheduler = max(now, scheduler) + costs.scheduler / 2
            busy += costs.scheduler / 2
            worker = free.popleft()
            work = batch * seconds * rng.uniform(0.8, 1.2) + costs.worker
            idle_at[worker] = max(scheduler + travel, idle_at[worker]) + work
            heapq.heappush(events, (idle_at[worker] + travel, 2, worker))
            end = max(end, idle_at[worker])
        else:
            scheduler = max(now, scheduler) + costs.scheduler / 2
            busy += costs.scheduler / 2
            free.append(worker)
            heapq.heappush(events, (scheduler + travel, 0, 0))
    end = max(end, scheduler)
    whole = end * tasks / simulated
    lost = 1 - tasks * batch * seconds / (workers * whole)
    return Outcome(whole, busy / end, lost, tasks * costs.bytes / whole)


def least_batch(constants: Constants, workers: int, count: int, seconds: float) -> int | None:
    """The fewest chunks in a task with which less than MOST_LOST is lost: a power of two, or MOST_IN_TASK."""
    batch = 1
    while simulate(constants, workers, count, batch, seconds).lost > MOST_LOST:
        if batch == MOST_IN_TASK:
            return None
        batch = min(2 * batch, MOST_IN_TASK)
    return batch


# Showing.


def tables(constants: Constants, workers: int, count: int) -> Iterator[str]:
    yield f"a task with          1 chunk   {MOST_IN_TASK} chunks"
    rows = (
        ("scheduler", "scheduler", 1e6, "µs"),
        ("client", "client", 1e6, "µs"),
        ("worker", "worker", 1e6, "µs"),
        ("through the scheduler", "bytes", 1e-3, "kB"),
        ("tasks, two workers", "rate", 1, "/s"),
    )
    for name, field, factor, unit in rows:
        values = (getattr(each, field) * factor for each in (constants.small, constants.large))
        yield f"{name:<21}" + "".join(f"{value:>8.1f} {unit:<3}" for value in values)
    window = AHEAD * workers
    all_of_them, some = constants.memory * count / 1e9, constants.memory * window / 1e6
    yield f"a task that waits takes {constants.memory / 1e3:.1f} kB of the scheduler's memory:"
    yield f"  {count:,} of them {all_of_them:.0f} GB, a window of {window:,} {some:.0f} MB"
    yield f"a task alone takes {constants.latency * 1e3:.1f} ms from the client to a worker and back"
    per_chunk = count / IN_FOLDER
    yield f"what is done: manifests of {IN_FOLDER} chunks {constants.manifest * per_chunk:.0f} s,"
    yield f"  lists of files {constants.scan * per_chunk:.0f} s, on this machine's own disk"
    yield ""
    yield f"{count:,} chunks on {workers:,} workers"
    yield (
        f"{'a chunk takes':<15}" + "".join(f"{f'{batch} in a task':>22}" for batch in BATCHES) + f"{'least batch':>14}"
    )
    yield " " * 15 + f"{'busy  lost':>22}" * len(BATCHES)
    for seconds in SECONDS:
        cells = []
        for batch in BATCHES:
            done = simulate(constants, workers, count, batch, seconds)
            cells.append(f"{f'{done.busy:>5.0%} {done.lost:>5.1%}':>22}")
        least = least_batch(constants, workers, count, seconds)
        yield f"{f'{seconds * 1e3:g} ms':<15}" + "".join(cells) + f"{'none' if least is None else least:>14}"
    yield ""
    ranges = dataclasses.replace(constants, large=constants.small)
    found = (f"{seconds * 1e3:g} ms: {least_batch(ranges, workers, count, seconds)}" for seconds in SECONDS)
    yield f"least batch if a task is told a range of chunks in place of their names: {', '.join(found)}"
    yield ""
    yield "workers   tasks of 1 s   through the scheduler   shortest task"
    yield "           busy   lost                       with 10% lost"
    for number in (10, 100, 1000, 10_000):
        done = _tasks(constants, number, 1.0)
        shortest = next(
            each for each in (2.0**n for n in range(-6, 12)) if _tasks(constants, number, each).lost < MOST_LOST
        )
        traffic = f"{done.bytes_per_second / 1e6:.2f} MB/s"
        yield f"{number:>7,} {done.busy:>7.0%} {done.lost:>6.1%} {traffic:>23} {f'{shortest:g} s':>15}"


def _tasks(constants: Constants, workers: int, seconds: float) -> Outcome:
    """A job of tasks with one chunk each, a hundred for each worker."""
    return simulate(constants, workers, 100 * workers, 1, seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=3000, help="measured")
    parser.add_argument("--workers", type=int, default=1000, help="simulated")
    parser.add_argument("--chunks", type=int, default=10_000_000, help="simulated")
    parser.add_argument("--json", type=pathlib.Path, help="writes the constants")
    parser.add_argument("--constants", type=pathlib.Path, help="simulates with these, and measures nothing")
    arguments = parser.parse_args()
    if arguments.constants is None:
        constants = measure(arguments.tasks)
    else:
        read = json.loads(arguments.constants.read_text("utf-8"))
        read |= {name: Costs(**read[name]) for name in ("small", "large")}
        constants = Constants(**read)
    for line in tables(constants, arguments.workers, arguments.chunks):
        print(line)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(dataclasses.asdict(constants), indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
