"""What campaigns share: cases by seed, in a separate process, so that a crash or a hang is a failure like any other.

A campaign is a module of this folder with

    CAMPAIGN = Campaign("documents", "damaged graph files: a message each", one_case, hang_seconds=60)

where `one_case(seed)` makes and checks the case of the seed.  It returns None if all is right; otherwise it raises, or
returns a text that says what is wrong.
"""

from __future__ import annotations

import importlib
import multiprocessing
import pathlib
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

MOST_FAILURES = 20  # a campaign ends after so many: more would show nothing new


@dataclass(frozen=True, slots=True)
class Campaign:
    """Attributes:
    one_case: makes and checks the case of a seed; returns what is wrong, or raises.
    hang_seconds: a case that takes longer counts as hanging, however busy the machine is.
    """

    name: str
    summary: str
    one_case: Callable[[int], str | None]
    hang_seconds: float = 300


@dataclass(frozen=True, slots=True)
class Limit:
    """When a campaign ends: after a number of seconds, or of cases."""

    seconds: float
    cases: int | None = None


@dataclass(slots=True)
class Report:
    """The result of a campaign: the number of cases, and the failures by seed."""

    cases: int = 0
    failures: dict[int, str] = field(default_factory=dict)


def known() -> dict[str, Campaign]:
    """The campaigns of this folder by name."""
    modules = sorted(path.stem for path in pathlib.Path(__file__).parent.glob("*.py"))
    found = [
        importlib.import_module(f"campaigns.{module}").CAMPAIGN
        for module in modules
        if module not in ("__init__", "__main__", "campaign") and not module.startswith("test_")
    ]
    return {each.name: each for each in found}


def run(campaign: Campaign, seed: int, limit: Limit, *, here: bool = False, quiet: bool = False) -> Report:
    """Runs the cases from a seed on, and prints the result.

    Args:
        here: run them in this process, which a crash ends and a hang blocks.
        quiet: print nothing.
    """
    report = Report()
    begin = time.monotonic()
    for number, problem in (_here if here else _apart)(campaign, seed, limit):
        report.cases += 1
        if problem is not None:
            report.failures[number] = problem
            if not quiet:
                print(f"{campaign.name} --seed {number} --cases 1: {problem}", flush=True)
            if len(report.failures) == MOST_FAILURES:
                break
    if not quiet:
        seconds = time.monotonic() - begin
        print(
            f"{campaign.name}: {report.cases} cases from seed {seed} in {seconds:.0f} s, {len(report.failures)} failed",
            flush=True,
        )
    return report


def _seeds(first: int, limit: Limit) -> Iterator[int]:
    end = time.monotonic() + limit.seconds
    seed = first
    while time.monotonic() < end and (limit.cases is None or seed < first + limit.cases):
        yield seed
        seed += 1


def _attempt(campaign: Campaign, seed: int) -> str | None:
    try:
        return campaign.one_case(seed)
    except Exception:
        return traceback.format_exc()


def _here(campaign: Campaign, first: int, limit: Limit) -> Iterator[tuple[int, str | None]]:
    for seed in _seeds(first, limit):
        yield seed, _attempt(campaign, seed)


def _apart(campaign: Campaign, first: int, limit: Limit) -> Iterator[tuple[int, str | None]]:
    """Runs the cases in another process; starts a new one when that ends or hangs."""
    context = multiprocessing.get_context("spawn")
    worker: _Worker | None = None
    try:
        for seed in _seeds(first, limit):
            worker = worker or _Worker(context, campaign)
            problem, survived = worker.attempt(seed)
            yield seed, problem
            if not survived:
                worker.end()
                worker = None
    finally:
        if worker is not None:
            worker.end()


class _Worker:
    """A process that runs the cases it is sent."""

    def __init__(self, context: multiprocessing.context.SpawnContext, campaign: Campaign) -> None:
        self._campaign = campaign
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, campaign), daemon=True)
        self._process.start()
        theirs.close()

    def attempt(self, seed: int) -> tuple[str | None, bool]:
        """What is wrong with a case, and whether the process still runs."""
        try:
            self._pipe.send(seed)
            if not self._pipe.poll(self._campaign.hang_seconds):
                return f"hangs: no end after {self._campaign.hang_seconds} s", False
            return self._pipe.recv(), True
        except (EOFError, ConnectionError):
            self._process.join()
            return f"ended the process with status {self._process.exitcode}", False

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self._pipe.close()


def _serve(pipe: Connection, campaign: Campaign) -> None:
    try:
        while True:
            pipe.send(_attempt(campaign, pipe.recv()))
    except EOFError:
        pass
