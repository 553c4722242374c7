"""What it is worth that a helper is kept off the processor of the thread that wakes it.

    python benchmarks/cpu_waking.py [--threads 2] [--runs 200]

Runs one element-wise pass after a pause, in which the helper threads fall asleep, in three ways by turns: in one
thread, with helpers that may wake on any processor, and with helpers that are kept off the caller's (as `cpu` has it).
In virtual machines Linux may take a sleeping processor for a busy one: then both threads share one processor, and two
threads are no faster than one.  The medians are in microseconds; the last column is the time without over the time
with.  On an idle machine, a ratio of 1 means that Linux found the other processor by itself.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

import dmlgraph as dg
from dmlgraph import _native

SIZES = (1 << 15, 1 << 18, 1 << 21)  # elements: runs of some hundred microseconds to ten milliseconds
PAUSES = (0.001, 0.02)  # seconds


class Way(NamedTuple):
    """How a pass runs: the name of its column, how many threads it has, and whether they are kept off."""

    name: str
    threads: int
    keeps_off: bool


def network(elements: int) -> dg.Graph:
    """One pass of a few functions, so that it computes more than it moves."""
    g = dg.Graph("pass")
    x = g.input("x", sizes=[elements], dtype="float32")
    g.output("y", dg.tanh(dg.exp(dg.sin(x))))
    return g


def measure(elements: int, ways: Sequence[Way], pause: float, runs: int) -> list[float]:
    """The median of a run in each way, in microseconds.  The ways take turns, so that all see the same machine."""
    x = np.linspace(-4, 4, elements, dtype=np.float32)
    bound: list[Callable[[], object]] = []
    for way in ways:
        executable = network(elements).compile("cpu", threads=way.threads)
        bound.append(executable.bind({"x": x}, {"y": np.empty_like(x)}))
    times: list[list[float]] = [[] for _ in ways]
    for _ in range(runs):
        for way, run, taken in zip(ways, bound, times, strict=True):
            _native.cpu_keep_helpers_off(way.keeps_off)
            time.sleep(pause)
            start = time.perf_counter()
            run()
            taken.append(time.perf_counter() - start)
    _native.cpu_keep_helpers_off(True)
    return [statistics.median(each) * 1e6 for each in times]


def main(threads: int, runs: int) -> None:
    ways = (Way("one", 1, True), Way("any", threads, False), Way("kept off", threads, True))
    print("  ".join(f"{column:>10}" for column in ("elements", "pause ms", *(each.name for each in ways), "ratio")))
    for elements in SIZES:
        for pause in PAUSES:
            one, anywhere, kept_off = measure(elements, ways, pause, runs)
            cells = (f"{elements:,}", f"{pause * 1e3:g}", f"{one:.0f}", f"{anywhere:.0f}", f"{kept_off:.0f}")
            print("  ".join(f"{cell:>10}" for cell in (*cells, f"{anywhere / kept_off:.2f}")), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--threads", type=int, default=_native.cpu_default_threads())
    parser.add_argument("--runs", type=int, default=200)
    arguments = parser.parse_args()
    main(arguments.threads, arguments.runs)
