"""A process that is interrupted; its command line chooses its work.

    python interrupted.py CASE DEVICE

It prints `begin` when its long work begins, repeats the work until KeyboardInterrupt, and does it once more.  Then it
prints as JSON how many seconds the exception and the whole work took, and whether the result is right.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, cast

import numpy as np

import dmlgraph as dg
from dmlgraph.devices.executable import Executable
from dmlgraph.devices.names import DeviceName

Array = np.ndarray[Any, Any]
Work = Callable[[], Array]

came: list[float] = []  # when the signal came


def on_signal(*_: object) -> None:
    came.append(time.monotonic())
    raise KeyboardInterrupt


def powers(count: int, steps: int) -> tuple[dg.Graph, dict[str, Array], Array]:
    """Many powers of ones: slow arithmetic, one pass over the data on `cpu`."""
    graph = dg.Graph("powers")
    x = graph.input("x", sizes=[1, 1, 1, count], dtype="float32")
    value = x
    for step in range(steps):
        value = dg.pow(value, x + float(step))
    graph.output("y", value)
    return graph, {"x": np.ones((1, 1, 1, count), np.float32)}, np.ones((1, 1, 1, count), np.float32)


def product(side: int) -> tuple[dg.Graph, dict[str, Array], Array]:
    graph = dg.Graph("product")
    x = graph.input("x", sizes=[1, 1, side, side], dtype="float32")
    graph.output("y", dg.gemm(x, x))
    sizes = (1, 1, side, side)
    return graph, {"x": np.ones(sizes, np.float32)}, np.full(sizes, side, np.float32)


def large(device: DeviceName) -> tuple[dg.Graph, dict[str, Array], Array]:
    """A graph whose run takes seconds."""
    if device == "directml:software":
        return product(1536)
    return powers(1 << 22, 40) if device == "cpu" else powers(1 << 22, 2)


def run(device: DeviceName) -> Work:
    graph, inputs, expected = large(device)
    executable = graph.compile(device)
    return checked(lambda: executable.run(inputs), expected)


def run_alone(device: DeviceName) -> Work:
    """On one thread."""
    graph, inputs, expected = large(device)
    executable = graph.compile(device, threads=1)
    return checked(lambda: executable.run(inputs), expected)


def run_product(device: DeviceName) -> Work:
    """One large product."""
    graph, inputs, expected = product(3072)
    executable = graph.compile(device)
    return checked(lambda: executable.run(inputs), expected)


def bound(device: DeviceName) -> Work:
    graph, inputs, expected = large(device)
    out = {"y": np.empty_like(expected)}
    executable = graph.compile(device)
    executable.run(inputs)
    again = executable.bind(inputs, out)

    def call() -> dict[str, Array]:
        out["y"][...] = -1
        return again()

    return checked(call, expected)


def other_thread(device: DeviceName) -> Work:
    """A run on another thread, which continues: the main thread waits for it."""
    graph, inputs, expected = large(device)
    executable = graph.compile(device)

    def call() -> dict[str, Array]:
        found: dict[str, Array] = {}
        thread = threading.Thread(target=lambda: found.update(executable.run(inputs)), daemon=True)
        thread.start()
        thread.join()
        return found

    return checked(call, expected)


def compile_(device: DeviceName) -> Work:
    """A compilation that takes seconds, and a run."""
    graph, inputs, expected = powers(8, 800 if device == "directml:software" else 1500)

    def call() -> dict[str, Array]:
        return graph.compile(device, fuse=False).run(inputs)

    return checked(call, expected)


def shaders(device: DeviceName) -> Work:
    """A first run, which compiles its shaders."""
    graph = dg.Graph("shaders")
    x = graph.input("x", sizes=[1, 1, 4, 8], dtype="float32")
    total = dg.reduce(dg.activation_softmax1(dg.gemm(x, x, trans_b="transpose"), axes=[3]), function="sum", axes=[3])
    graph.output("y", dg.round(total))
    made: list[Executable] = []

    def call() -> dict[str, Array]:
        if not made:
            made.append(graph.compile(device))
        return made[0].run({"x": np.ones((1, 1, 4, 8), np.float32)})

    return checked(call, np.ones((1, 1, 4, 1), np.float32))


def states(device: DeviceName) -> Work:
    """Several steps, which change two states together or not at all."""
    graph, inputs, _ = large(device)
    count = graph.state("count", sizes=[1], dtype="float32")
    graph.update(count, count + 1)
    rows = graph.state("rows", sizes=[4096, 1], dtype="float32", grows=0)
    graph.append(rows, (count * 2).reshape(1, 1))
    executable = graph.compile(device)

    def work() -> Array:
        before = executable.states["count"]
        executable.run(inputs, steps=2)
        after, kept = executable.states["count"], executable.states["rows"]
        np.testing.assert_array_equal(after, before + 2)
        np.testing.assert_array_equal(kept[:, 0], 2 * np.arange(after[0], dtype=np.float32))
        return after

    return work


def checked(call: Callable[[], dict[str, Array]], expected: Array) -> Work:
    def work() -> Array:
        result = call()["y"]
        np.testing.assert_array_equal(result, expected)
        return result

    return work


CASES: dict[str, Callable[[DeviceName], Work]] = {
    each.__name__.rstrip("_"): each
    for each in (run, run_alone, run_product, bound, other_thread, compile_, shaders, states)
}


def main() -> None:
    case, device = sys.argv[1:]
    signal.signal(signal.SIGINT, on_signal)
    work = CASES[case](cast("DeviceName", device))
    print("begin", flush=True)
    interrupted: float | None = None
    try:
        while True:  # on a busy machine the signal may arrive late
            work()
    except KeyboardInterrupt:
        interrupted = time.monotonic() - came[0]
    begin = time.monotonic()
    work()
    print(json.dumps({"interrupted": interrupted, "whole": time.monotonic() - begin}))


if __name__ == "__main__":
    main()
