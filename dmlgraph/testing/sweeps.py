"""Sweeps: every graph, and the tests beside it, on the devices of all machines of a cluster.

    with connect("tcp://10.0.0.1:8786"):
        records = sweep(["models"], dims={"N": [1, 8]})

Devices of the same name on one machine are one place, whatever the number of its workers; a test runs once in each
place.  Only as many tests are submitted as workers have threads, each to one worker: it is known what a worker that
dies was doing, and the scheduler holds little, whatever the number of tests.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import itertools
import math
import os
import queue
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dmlgraph.base.errors import DeviceError, DmlGraphError, listing, plural
from dmlgraph.devices import check_name
from dmlgraph.distributed.extra import need
from dmlgraph.testing.allowances import Allowances
from dmlgraph.testing.bundle import MOST_BYTES
from dmlgraph.testing.records import Outcome, Place, Record, Result, case_name
from dmlgraph.testing.stations import Survey, run_here, survey, version
from dmlgraph.testing.subprocess_runner import BY_TESTS, SECONDS, How
from dmlgraph.testing.test_subjects import Subject, subjects

if TYPE_CHECKING:
    from distributed import Client, Future

    from dmlgraph.graph.graph import Graph

DEATHS = 2  # how often a test is run again after its worker died
PATIENCE = 60.0  # seconds to wait for a worker, where none has the device any more
_LOOK = 0.5  # seconds between looks at which workers there are
_SURVEY = 120.0  # seconds for a worker to list its devices
_SILENCE = 300.0  # seconds beyond its limit after which a test's worker is given up
_FETCH = 60.0  # seconds in which an answer that is there arrives


def sweep(
    graphs: Iterable[Graph | str | os.PathLike[str]],
    devices: Sequence[str] | None = None,
    dims: Mapping[str, int | Sequence[int]] | None = None,
    *,
    names: Collection[str] = (),
    seconds: float = SECONDS,
    may_fail: Allowances | None = None,
    deaths: int = DEATHS,
    patience: float = PATIENCE,
    most_bytes: int = MOST_BYTES,
    how: How = BY_TESTS,
    client: Client | None = None,
    each: Callable[[Record], object] | None = None,
) -> list[Record]:
    """Tests graphs on the devices of all workers.

    A graph without tests runs once in each place with random inputs, and nothing is compared.  With `How(doctor=True)`
    the nodes of each graph are examined in each place in place of its tests.

    Args:
        graphs: graphs, graph files, ONNX models, and folders, which stand for the graph files in them.
        devices: names of devices; by default those that the tests name, else all that the workers have.
        dims: values of dims; tests run with every combination.
        names: only tests with one of these texts in their names, such as `ones[cpu]`.
        seconds: that a test may take; then its process is killed.
        may_fail: tests that are allowed to fail, from `dmlgraph.testing.allowances.read`.
        deaths: how often a test is run again after its worker died.
        patience: seconds to wait for a worker, where none has the device any more.
        most_bytes: of a graph file and the files it names.
        how: whether the doctor examines graphs, and what DirectML may do.
        client: of the cluster; by default Dask's default client.
        each: is called with each record as soon as it is there.

    Returns:
        A record for each test in each place, in the order of graphs, dims, tests and places.

    Raises:
        DmlGraphError: a graph is too large to send, the cluster is gone, or no worker can run tests.
    """
    need("distributed")
    sizes = {dim: [size] if isinstance(size, int) else list(size) for dim, size in (dims or {}).items()}
    found = list(subjects(graphs, sizes, most_bytes))
    asked = [item for item in found if isinstance(item, Subject)]
    running = Sweep(
        [item.examined() for item in asked] if how.doctor else asked,
        client or _default_client(),
        devices=devices,
        names=names,
        seconds=seconds,
        deaths=deaths,
        patience=patience,
        how=how,
    )
    return _recorded(running, found, may_fail or Allowances(), each)


def _recorded(
    running: Sweep,
    found: Sequence[Subject | Record],
    may_fail: Allowances,
    each: Callable[[Record], object] | None,
) -> list[Record]:
    """The records of what could not be read and of all tests, as `sweep` returns them."""
    files = {item.bundle.file if isinstance(item, Subject) else item.file: None for item in found}
    broken = (item for item in found if isinstance(item, Record))
    records = []
    for record in itertools.chain(broken, map(may_fail.applied, running)):
        records.append(record)
        if each is not None:
            each(record)
    return running.ordered(records, list(files))


def _default_client() -> Client:
    from distributed import default_client

    try:
        return default_client()
    except ValueError:
        hint = "with connect(workers=2): …"
        raise DeviceError("there is no connection to a cluster", code="cluster", hint=hint) from None


@dataclasses.dataclass(eq=False, slots=True)
class _Trial:
    """A test of a graph in a place; `deaths` counts the workers that died of it, or beside it."""

    subject: int
    test: str
    place: Place
    attempts: int = 0
    deaths: int = 0


@dataclasses.dataclass(eq=False, slots=True)
class _Worker:
    """A worker that has answered the survey.

    Attributes:
        address: of the worker.
        slots: how many tests it runs at once.
        places: its places by device.
        at_once: how many tests a device runs at once, where that is limited.
        running: what it runs.
        bundles: what it was sent, by the bundle's identity.
    """

    address: str
    slots: int
    places: Mapping[str, Place]
    at_once: Mapping[str, int]
    running: set[_Task] = dataclasses.field(default_factory=set)
    bundles: dict[int, Future] = dataclasses.field(default_factory=dict)

    def takes(self, place: Place) -> bool:
        """Whether it can begin a test in a place now."""
        if self.places.get(place.device) != place or len(self.running) >= self.slots:
            return False
        most = self.at_once.get(place.device, self.slots)
        return sum(task.trial.place == place for task in self.running) < most


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class _Task:
    """A test that a worker runs, until when its answer is waited for, and where that arrives."""

    trial: _Trial
    worker: _Worker
    future: Future
    until: float


class Sweep:
    """Runs the tests of graphs on the workers of a cluster; iterating it yields records as they come.

    The arguments are those of `sweep`.

    Attributes:
        left_out: how many tests `names` left out.
        refused: why workers are not used, by their addresses.
    """

    def __init__(
        self,
        subjects: Sequence[Subject],
        client: Client,
        *,
        devices: Sequence[str] | None = None,
        names: Collection[str] = (),
        seconds: float = SECONDS,
        deaths: int = DEATHS,
        patience: float = PATIENCE,
        how: How = BY_TESTS,
    ) -> None:
        _check(devices, seconds)
        self.subjects, self.client, self.how = subjects, client, how
        self.devices = None if not devices else tuple(devices)
        self.names = tuple(name.lower() for name in names)
        self.seconds, self.deaths, self.patience = seconds, deaths, patience
        self.left_out = 0
        self.refused: dict[str, str] = {}
        self._workers: dict[str, _Worker] = {}
        self._surveys: dict[str, Future] = {}  # by address
        self._queues: dict[Place, collections.deque[_Trial]] = {}
        self._without: dict[Place, float] = {}  # since when no worker has the place
        self._waiting: collections.Counter[int] = collections.Counter()  # trials of each bundle that are not done
        self._unusable: dict[str, str] = {}  # why, by device
        self._done: queue.SimpleQueue[Future] = queue.SimpleQueue()
        self._tasks: dict[str, _Task] = {}  # by the keys of their futures
        self._has_met = False  # whether any worker can run tests
        self._looked = 0.0

    def __iter__(self) -> Iterator[Record]:
        """The records, as they come.

        Raises:
            DeviceError: the cluster is gone, or no worker can run tests.
        """
        if not self.subjects:
            return
        self._began = time.monotonic()
        try:
            while self._is_unfinished():
                yield from self._look()
                yield from self._wait()
        finally:
            self._cancel()
        yield from self._nowhere()

    def ordered(self, records: Iterable[Record], files: Sequence[str] = ()) -> list[Record]:
        """Records by file, dims, test and place; `files` is the order of the files, by default that of the subjects."""
        order = {file: index for index, file in enumerate(files or (each.bundle.file for each in self.subjects))}
        sizes = {text: index for index, text in enumerate(dict.fromkeys(each.sizes for each in self.subjects))}
        tests = {name: index for index, name in enumerate(dict.fromkeys(n for s in self.subjects for n in s.tests))}

        def key(record: Record) -> tuple[int, int, int, str, str, str]:
            place = record.place or Place("")
            where = (place.machine, place.device, place.description)
            return order[record.file], sizes.get(record.sizes, 0), tests.get(record.test, -1), *where

        return sorted(records, key=key)

    # Workers.

    def _is_unfinished(self) -> bool:
        return not self._has_met or bool(self._surveys or self._tasks) or any(self._queues.values())

    def _look(self) -> Iterator[Record]:
        """Updates the workers: asks new ones for their devices, and runs tests of lost ones again."""
        now = time.monotonic()
        if now - self._looked < _LOOK:
            return
        self._looked = now
        try:
            there: Mapping[str, int] = self.client.nthreads()
        except (OSError, TimeoutError, RuntimeError) as error:  # the connection broke
            raise self._gone(error) from None
        if self.client.status not in ("running", "connecting"):
            raise self._gone(self.client.status)
        for address in [each for each in self._surveys if each not in there]:
            self._surveys.pop(address).cancel()
        for address in [each for each in self._workers if each not in there]:
            yield from self._bury(self._workers.pop(address), "the worker died")
        for address in there.keys() - self._workers.keys() - self._surveys.keys() - self.refused.keys():
            self._ask(address)
        for worker in self._workers.values():
            worker.slots = there[worker.address]
            for task in [each for each in worker.running if now > each.until]:
                self.refused[worker.address] = f"no answer in {now - task.until + self.seconds + _SILENCE:.0f} s"
        for address in self.refused.keys() & self._workers.keys():
            yield from self._bury(self._workers.pop(address), self.refused[address])
        for worker in self._workers.values():
            self._assign(worker)
        yield from self._give_up(now)

    def _ask(self, address: str) -> None:
        """Asks a worker what it has."""
        tests = [devices for subject in self.subjects for devices in subject.tests.values()]
        named = dict.fromkeys(device for devices in tests for device in devices or ())
        every = self.devices is None and None in tests
        names = list(named) if self.devices is None else list(self.devices)
        asked = self.client.submit(survey, names, every, _SURVEY, workers=[address], pure=False, key=_key("survey"))
        self._surveys[address] = asked
        asked.add_done_callback(self._done.put)

    def _meet(self, address: str, found: Survey) -> None:
        """Takes a worker in; a new place gets all tests."""
        if found.version != version():
            self.refused[address] = f"it has dmlgraph {found.version}, and {version()} is here"
            return
        places = {}
        for device, each in found.devices.items():
            if not each.usable:
                self._unusable.setdefault(device, each.text)
                continue
            places[device] = place = Place(device, found.machine, each.text)
            self._without.pop(place, None)
            if place not in self._queues:
                listed = each.listed or self.devices is not None
                self._queues[place] = collections.deque(self._trials(place, listed=listed))
        slots = self.client.nthreads().get(address, 1)
        self._workers[address] = worker = _Worker(address, slots, places, found.at_once)
        self._has_met = True
        self._assign(worker)

    def _trials(self, place: Place, *, listed: bool) -> Iterator[_Trial]:
        """The tests of a new place; `listed`: not only those that name its device."""
        for index, subject in enumerate(self.subjects):
            for name, devices in subject.tests.items():
                if place.device in devices if devices is not None else listed:
                    if not self._is_chosen(name, place.device):
                        self.left_out += 1
                        continue
                    self._waiting[id(subject.bundle)] += 1
                    yield _Trial(index, name, place)

    def _is_chosen(self, test: str, device: str) -> bool:
        name = case_name(test, device).lower()
        return not self.names or any(each in name for each in self.names)

    def _bury(self, worker: _Worker, why: str) -> Iterator[Record]:
        """What a worker was running runs again elsewhere."""
        for task in list(worker.running):
            if task.future.status == "finished":  # its answer has arrived, and is about to be read
                continue
            self._forget(task)
            task.future.cancel()
            yield from self._again(task.trial, f"{why} ({worker.address})")
        gone = set(worker.places.values()) - {p for each in self._workers.values() for p in each.places.values()}
        for place in gone:
            self._without[place] = time.monotonic()

    def _again(self, trial: _Trial, why: str) -> Iterator[Record]:
        trial.deaths += 1
        if trial.deaths > self.deaths:
            times = "" if trial.deaths == 1 else f", as it did {plural(trial.deaths - 1, 'time')} before"
            yield self._record(trial, Result(Outcome.LOST, why + times))
        else:
            self._queues[trial.place].appendleft(trial)

    def _give_up(self, now: float) -> Iterator[Record]:
        """Ends waiting for places that no worker has any more, and for a first worker."""
        for place, since in list(self._without.items()):
            if now - since > self.patience:
                left = self._queues[place]
                while left:
                    yield self._record(left.popleft(), Result(Outcome.LOST, "no worker is left that has the device"))
        if not self._has_met and not self._surveys and now - self._began > self.patience:
            raise DeviceError(
                f"no worker can run tests: {self._refusals()}"
                if self.refused
                else f"there is no worker after {self.patience:g} s",
                code="cluster",
            )

    def _refusals(self) -> str:
        return listing((f"{address}: {why}" for address, why in self.refused.items()), at_most=5)

    # Tests.

    def _assign(self, worker: _Worker) -> None:
        """Gives a worker as much as it can do: of its places' next tests that of the first graph."""
        while worker.address not in self.refused:
            ready = [place for place in worker.places.values() if self._queues[place] and worker.takes(place)]
            if not ready:
                return
            place = min(ready, key=lambda each: self._queues[each][0].subject)
            trial = self._queues[place].popleft()
            try:
                self._submit(trial, worker)
            except (OSError, TimeoutError, ValueError, KeyError) as error:  # most likely it died this moment
                self._queues[place].appendleft(trial)
                self.refused[worker.address] = f"nothing can be sent to it: {_said(error)}"

    def _submit(self, trial: _Trial, worker: _Worker) -> None:
        subject = self.subjects[trial.subject]
        name = trial.test if subject.has_tests else None
        resources = {trial.place.device: 1} if trial.place.device in worker.at_once else None
        future = self.client.submit(
            run_here,
            self._sent(subject, worker),
            dict(subject.dims),
            name,
            trial.place.device,
            self.seconds,
            self.how,
            workers=[worker.address],
            resources=resources,
            pure=False,
            key=_key(f"test-{trial.test}"),
        )
        trial.attempts += 1
        until = time.monotonic() + self.seconds + _SILENCE
        self._tasks[future.key] = task = _Task(trial, worker, future, until)
        worker.running.add(task)
        future.add_done_callback(self._done.put)

    def _sent(self, subject: Subject, worker: _Worker) -> Future:
        """The graph's files, which are sent to a worker once; it keeps them until all tests of the graph are done."""
        key = id(subject.bundle)
        future = worker.bundles.get(key)
        if future is None or future.status != "finished":
            (future,) = self.client.scatter([subject.bundle], workers=[worker.address], hash=False)
            worker.bundles[key] = future
        return future

    def _wait(self) -> Iterator[Record]:
        """The records of what is done; waits a moment for it."""
        try:
            future = self._done.get(timeout=_LOOK)
        except queue.Empty:
            return
        task = self._tasks.get(future.key)
        if task is not None:
            self._forget(task)
            yield from self._ended(task)
            if task.worker.address in self._workers:
                self._assign(task.worker)
            return
        address = next((each for each, asked in self._surveys.items() if asked.key == future.key), None)
        if address is not None:  # not of a worker that has gone
            del self._surveys[address]
            if (found := _answer(future)) is not None:
                self._meet(address, found)
            elif future.status == "error":
                self.refused[address] = _said(future.exception())

    def _forget(self, task: _Task) -> None:
        del self._tasks[task.future.key]
        task.worker.running.discard(task)

    def _ended(self, task: _Task) -> Iterator[Record]:
        from distributed.scheduler import KilledWorker

        if (answer := _answer(task.future)) is not None:
            yield self._record(task.trial, answer)
            return
        error = task.future.exception() if task.future.status == "error" else None
        if error is None or isinstance(error, (KilledWorker, OSError)):
            yield from self._again(task.trial, f"the worker died ({task.worker.address})")
        else:
            yield self._record(task.trial, Result(Outcome.LOST, f"the worker failed: {_said(error)}"))

    def _record(self, trial: _Trial, result: Result) -> Record:
        subject = self.subjects[trial.subject]
        bundle = id(subject.bundle)
        self._waiting[bundle] -= 1
        if not self._waiting[bundle]:  # workers forget what nobody refers to
            for worker in self._workers.values():
                worker.bundles.pop(bundle, None)
        return Record(subject.bundle.file, trial.test, trial.place, result, subject.sizes, trial.attempts)

    def _nowhere(self) -> Iterator[Record]:
        """A record for each test whose device no worker has."""
        there = {place.device for place in self._queues}
        for subject in self.subjects:
            for name, devices in subject.tests.items():
                named = self.devices or () if devices is None else devices
                for device in named:
                    if device in there or (self.devices is not None and device not in self.devices):
                        continue
                    if self._is_chosen(name, device):
                        why = f"no worker has '{device}'"
                        why += f": {self._unusable[device]}" if device in self._unusable else ""
                        why += f"; not used: {self._refusals()}" if self.refused else ""
                        result = Result(Outcome.SKIPPED, why)
                        yield Record(subject.bundle.file, name, Place(device), result, subject.sizes, 0)
                    else:
                        self.left_out += 1

    def _cancel(self) -> None:
        """Lets go of everything that is on the cluster."""
        left = [*(task.future for task in self._tasks.values()), *self._surveys.values()]
        if left and self.client.status == "running":
            self.client.cancel(left)
        self._tasks.clear()
        self._workers.clear()

    def _gone(self, error: Any) -> DeviceError:
        return DeviceError(f"the connection to the scheduler is lost: {_said(error)}", code="cluster")


def _answer(future: Any) -> Any:
    """What a task has returned; None if it failed, or if its worker died before anybody asked."""
    with contextlib.suppress(TimeoutError):  # no other worker may compute it again, so that it would never come
        return future.result(timeout=_FETCH) if future.status == "finished" else None
    return None


def _check(devices: Any, seconds: float) -> None:
    """Refuses what are not names of devices, and not a time.

    Raises:
        DeviceError: no device has the name.
        DmlGraphError: the rest.
    """
    if isinstance(devices, str):
        hint = f"such as [{devices!r}]"
        raise DmlGraphError("must be a list of names", code="kind", field="devices", got=devices, hint=hint)
    for name in devices or ():
        check_name(name)
    if not 0 < seconds < math.inf:
        raise DmlGraphError(
            "must be a time", code="range", field="seconds", got=seconds, allowed="a finite number above 0"
        )


def _key(what: str) -> str:
    """A key that no other task has: equal tests on equal devices of other machines run again."""
    return f"dmlgraph-{what}-{os.urandom(8).hex()}"


def _said(error: Any) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text}" if isinstance(error, BaseException) else text
