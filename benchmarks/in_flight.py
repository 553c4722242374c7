"""What `Executable.map` saves over a loop over `Executable.run`, when inputs take as long to prepare as a run takes.

    python benchmarks/in_flight.py [--device cpu directml:software] [--ms 10] [--in-flight 2] [--items 20]
                                  [--repeats 5]

A run is a chain of operators that takes about `--ms` milliseconds on one thread.  The caller's own work is calibrated
to take as long:

NumPy     sines of an array; NumPy releases Python's lock meanwhile
Python    a loop in Python, which holds the lock; runs hold it only for a moment
waiting   a sleep, as for a disk or a network

Each line has, of interleaved repetitions, the least time of a loop over `run` per item, that of `map`, how many times
the throughput of the loop `map` has, and how many times two threads have that do the same work and the same runs beside
each other, without any order: what the machine allows at the most.  The last two lines are the copy of the inputs that
`submit` makes, next to a run, and what `submit` costs for a run of almost no work.
"""

from __future__ import annotations

import argparse
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

import dmlgraph as dg
from dmlgraph.devices.directml.software import adapter
from dmlgraph.devices.executable import Array, Executable
from dmlgraph.devices.names import DeviceName

Items = Iterator[Mapping[str, Any]]
SIZE = 1 << 18


def compiled(device: DeviceName, size: int, steps: int) -> Executable:
    """A chain of tanh and multiplications, on one thread where the device is the processor."""
    g = dg.Graph("chain")
    x = g.input("x", sizes=[size], dtype="float32")
    for _ in range(steps):
        x = dg.activation_tanh(x) * 1.5
    g.output("y", x)
    if device == "directml:software":
        adapter.set_threads(1)
    return g.compile(device, threads=1 if device == "cpu" else None)


def least(ways: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """The least time of each, in seconds, of interleaved repetitions."""
    times: dict[str, float] = {}
    for _ in range(repeats + 1):  # the first warms up
        for name, way in ways.items():
            start = time.perf_counter()
            way()
            times[name] = min(times.get(name, np.inf), time.perf_counter() - start)
    return times


def sines(array: Array) -> None:
    np.sin(array, out=array)


def count(turns: int) -> int:
    total = 0
    for turn in range(turns):
        total += turn
    return total


def workloads(seconds: float) -> dict[str, Callable[[], object]]:
    """Work of the caller that takes this long."""
    array, turns = np.linspace(0, 1, 1 << 16), 10_000
    per = least({"NumPy": lambda: sines(array), "Python": lambda: count(turns)}, 7)
    repeats = max(1, round(seconds / per["NumPy"]))
    longer = round(turns * seconds / per["Python"])
    return {
        "NumPy": lambda: [sines(array) for _ in range(repeats)],
        "Python": lambda: count(longer),
        "waiting": lambda: time.sleep(seconds),
    }


def measure(device: DeviceName, ms_wanted: float, in_flight: int, items: int, repeats: int) -> None:
    x = np.linspace(-1, 1, SIZE, dtype=np.float32)
    short = compiled(device, SIZE, 4)
    steps = round(4 * ms_wanted / 1e3 / least({"run": lambda: short.run({"x": x})}, 9)["run"])
    exe = compiled(device, SIZE, max(1, steps))
    alone = least({"run": lambda: exe.run({"x": x})}, 9)["run"]
    print(f"{device}: a run takes {alone * 1e3:.2f} ms")
    for name, work in workloads(alone).items():

        def made(work: Callable[[], object] = work) -> Items:
            for _ in range(items):
                work()
                yield {"x": x}

        def loop(made: Callable[[], Items] = made) -> None:
            for item in made():
                exe.run(item)

        def mapped(made: Callable[[], Items] = made) -> None:
            for _ in exe.map(made(), in_flight):
                pass

        def beside(made: Callable[[], Items] = made) -> None:
            other = threading.Thread(target=lambda: [exe.run({"x": x}) for _ in range(items)])
            other.start()
            for _ in made():
                pass
            other.join()

        times = least({"run": loop, "map": mapped, "beside": beside}, repeats)
        cells = [f"{way} {times[way] / items * 1e3:7.2f} ms" for way in ("run", "map")]
        cells += [f"{times['run'] / times[way]:.2f} times" for way in ("map", "beside")]
        print(f"  {name:<8} {', '.join(cells)} at the most")
    copy = least({"copy": x.copy}, 99)["copy"]
    print(f"  the copy of {x.nbytes >> 20} MiB of inputs takes {copy / alone:.1%} of a run")
    tiny = compiled(device, 8, 1)
    few = np.zeros(8, np.float32)
    times = least({"run": lambda: tiny.run({"x": few}), "submit": lambda: tiny.submit({"x": few}).result()}, 999)
    print(f"  a tiny run takes {times['run'] * 1e6:.0f} µs, submitted {times['submit'] * 1e6:.0f} µs")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", nargs="+", default=["cpu", "directml:software"])
    parser.add_argument("--ms", type=float, default=10)
    parser.add_argument("--in-flight", type=int, default=2)
    parser.add_argument("--items", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    print(f"{os.cpu_count()} processors, {arguments.in_flight} in flight")
    for each in arguments.device:
        measure(each, arguments.ms, arguments.in_flight, arguments.items, arguments.repeats)
