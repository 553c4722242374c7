"""Libraries beside one another: what the benchmarks networks.py and windows.py have in common.

A round calls every library, so that all of them meet the same disturbances.  It waits until the threads of the library
before have stopped looking for work, calls each one, and times the calls after that: a millisecond of them in a row,
as the layers of a network come, since a call that follows a pause takes longer in every library.  A time is that of a
call, the median of the rounds, and the number after ± half the distance between its quartiles, in percent.  A ratio is
the device's time over the other library's, of the medians and of the shortest times: at most 1 is wanted.

NumPy's threads are limited by threadpoolctl, which must be installed.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import math
import multiprocessing
import os
import pathlib
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping

import threadpoolctl

Call = Callable[[], object]
Seconds = Mapping[str, list[float]]  # by library
REST, LONGEST_REST = 0.02, 5.0  # seconds: that show whether threads look for work, and at the most
ROW = 0.001  # seconds of calls in a row


@dataclasses.dataclass(frozen=True)
class Case:
    """Calls that do the same, by library; the first one is the device's.

    Attributes:
        operations: multiplications and additions of a call; 0 if they are not counted.
    """

    calls: Mapping[str, Call]
    operations: int = 0


Make = Callable[[int], Case]  # takes the number of threads


@dataclasses.dataclass(frozen=True)
class Result:
    """The seconds of every call of a case, on an idle machine and, if that was asked for, on a busy one."""

    name: str
    threads: int
    operations: int
    idle: Seconds
    busy: Seconds | None

    @property
    def device(self) -> str:
        return next(iter(self.idle))

    def ratio(self, library: str, of: Callable[[list[float]], float] = statistics.median) -> float:
        """The device's time over that of a library."""
        return of(self.idle[self.device]) / of(self.idle[library])

    def slowdown(self, library: str) -> float:
        """The median time beside busy processes over the idle one."""
        assert self.busy is not None
        return statistics.median(self.busy[library]) / statistics.median(self.idle[library])

    def line(self, libraries: Iterable[str]) -> str:
        own = self.idle[self.device]
        speed = f"{self.operations / statistics.median(own) / 1e9:9.1f}" if self.operations else f"{'':9}"
        text = f"{self.name:32}{1e3 * statistics.median(own):9.3f} ±{100 * spread(own):4.0f}%{speed}"
        for library in libraries:
            if library not in self.idle:
                text += f"{'–':>27}"
                continue
            ratios = f"{self.ratio(library):13.2f}{self.ratio(library, min):7.2f}"
            text += f"{ratios} ±{100 * spread(self.idle[library]):4.0f}%"
        if self.busy is not None:
            text += "  busy:" + "".join(f" {name} × {self.slowdown(name):.2f}" for name in self.idle)
        return text

    def record(self) -> dict[str, object]:
        libraries = {
            name: {
                "median_seconds": statistics.median(each),
                "least_seconds": min(each),
                "spread": spread(each),
                **({} if name == self.device else {"ratio": self.ratio(name), "least_ratio": self.ratio(name, min)}),
                **({} if self.busy is None else {"busy_over_idle": self.slowdown(name)}),
            }
            for name, each in self.idle.items()
        }
        return {"name": self.name, "threads": self.threads, "libraries": libraries}


def measure(calls: Mapping[str, Call], rounds: int) -> Seconds:
    """The seconds of a call by library, in interleaved rounds after one to warm up."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds + 1):
        for name, call in calls.items():
            rest()
            call()
            found = _seconds_in_a_row(call)
            if number:
                seconds[name].append(found)
    return seconds


def _seconds_in_a_row(call: Call) -> float:
    """The seconds of a call among as many as take about `ROW` together."""
    start = last = time.perf_counter()
    count = 0
    while last - start < ROW:
        call()
        count += 1
        last = time.perf_counter()
    return (last - start) / count


def rest() -> None:
    """Waits until no thread of this process looks for work any more: ONNX Runtime's do for a while after a run."""
    end = time.monotonic() + LONGEST_REST
    while time.monotonic() < end:
        before = time.process_time()
        time.sleep(REST)
        if time.process_time() - before < REST / 10:
            return


def spread(seconds: list[float]) -> float:
    """Half the distance between the quartiles, relative to the median."""
    low, median, high = statistics.quantiles(seconds, n=4)
    return (high - low) / 2 / median


def _spin() -> None:
    while True:
        pass


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    """Runs `count` processes that compute all the time."""
    processes = [multiprocessing.get_context("spawn").Process(target=_spin, daemon=True) for _ in range(count)]
    for process in processes:
        process.start()
    time.sleep(1 if processes else 0)  # until they have started
    try:
        yield
    finally:
        for process in processes:
            process.terminate()
            process.join()


def geometric_mean(ratios: Iterable[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, ratios)))


def _summaries(results: list[Result], libraries: Iterable[str]) -> list[dict[str, object]]:
    """For every number of threads and every library: the geometric mean and the greatest of the ratios."""
    made: list[dict[str, object]] = []
    for threads in sorted({each.threads for each in results}):
        for library in libraries:
            taking_part = [each for each in results if each.threads == threads and library in each.idle]
            found = {each.name: each.ratio(library) for each in taking_part}
            if found:
                worst = max(found, key=lambda name: found[name])
                mean = geometric_mean(found.values())
                made.append({"threads": threads, "over": library, "cases": len(found), "geometric_mean": mean})
                made[-1] |= {"worst": worst, "worst_ratio": found[worst]}
    return made


def main(description: str, groups: Mapping[str, Mapping[str, Make]], libraries: tuple[str, ...], rounds: int) -> None:
    """Reads the command line, measures, and prints.

    Every group of cases is an option that takes names of cases.  If none of them is given, all cases run.

    Args:
        description: the first line of the help.
        groups: cases by the name of their group.
        libraries: the others beside the device, in the order of the columns.
        rounds: how many there are if the command line does not say it.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--threads", type=int, nargs="+", default=sorted({1, min(2, os.cpu_count() or 1)}))
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--busy", type=int, default=0, metavar="N", help="measure beside N busy processes too")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write all results into a file")
    for group, makers in groups.items():
        parser.add_argument(f"--{group}", nargs="*", choices=makers, metavar="NAME", help=f"these {group}, or all")
    arguments = parser.parse_args()
    asked = {group: names for group in groups if (names := getattr(arguments, group)) is not None}
    chosen = {name: groups[group][name] for group in asked or groups for name in asked.get(group) or groups[group]}
    results = []
    for threads in arguments.threads:
        print(f"\nthreads: {threads}, {arguments.rounds} rounds")
        columns = "".join(f"{name:>13}{'least':>7}{'':7}" for name in libraries)
        print(f"{'':32}{'ms':>9}{'':7}{'GFLOP/s':>9}{columns}")
        for name, make in chosen.items():
            case = make(threads)
            with threadpoolctl.threadpool_limits(threads, "blas"):
                idle = measure(case.calls, arguments.rounds)
                with busy(arguments.busy):
                    disturbed = measure(case.calls, arguments.rounds) if arguments.busy else None
            results.append(Result(name, threads, case.operations, idle, disturbed))
            print(results[-1].line(libraries), flush=True)
    summaries = _summaries(results, libraries)
    print()
    for each in summaries:
        print("threads: {threads}, {cases} cases over {over}: geometric mean {geometric_mean:.3f}, "
              "worst {worst_ratio:.2f} ({worst})".format(**each))  # fmt: skip
    if arguments.json is not None:
        document = {"busy": arguments.busy, "rounds": arguments.rounds, "cases": [each.record() for each in results]}
        arguments.json.write_text(json.dumps(document | {"summaries": summaries}, indent=1) + "\n", encoding="utf-8")
