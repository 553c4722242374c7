"""What a cluster costs beside the runs, and what more workers gain.

    python benchmarks/many_machines.py [--workers 2] [--repeats 5] [--seconds 2]

- A chunk through a cluster of one worker beside the same chunk in a loop in this process, with one thread each:
  reading, running and writing, by the size of chunks; and a block of a Dask array beside a plain run.
- Several workers beside one, on the same job.
- What the scheduler does: tasks a second, and bytes for each chunk, and what follows for 1,000 workers and ten million
  chunks.

The graph is a perceptron of 256 values, a hidden layer and 16 classes: its results are small, since files of megabytes
would measure the disk.  Costs are seconds of the processor: they do not depend on what else the machine does.  The
ratio of several workers does.
"""

from __future__ import annotations

import argparse
import pathlib
import pickle
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import dmlgraph as dg
from dmlgraph.distributed import Runner, connect, map_blocks, run_chunks
from dmlgraph.distributed.job import job_of
from dmlgraph.distributed.window import TASK_SECONDS, compute

WIDTH, CLASSES = 256, 16
HIDDEN = 2048  # where workers are compared: a chunk takes about 50 ms, a job some seconds
KIB = 1024
SIZES = (64 * KIB, 512 * KIB, 2048 * KIB, 8192 * KIB)  # of a chunk, bytes
OPTIONS: Any = {"device": "cpu", "threads": 1}


def perceptron(hidden: int = WIDTH) -> dg.Graph:
    numbers = np.random.default_rng(0)
    g = dg.Graph("perceptron", dims={"batch": 1})
    value = g.input("x", sizes=["batch", WIDTH], dtype="float32")
    for layer, shape in enumerate(((WIDTH, hidden), (hidden, CLASSES))):
        w = g.constant(f"w{layer}", numbers.normal(0, 0.1, shape).astype(np.float32))
        value = dg.gemm(value, w, fused_activation="activation_relu")
    g.output("y", value)
    return g


def rows(size: int) -> int:
    return size // (4 * WIDTH)


def folders(parent: pathlib.Path) -> Iterator[pathlib.Path]:
    number = 0
    while True:
        number += 1
        yield parent / f"out{number}"


def costs(given: argparse.Namespace, parent: pathlib.Path) -> None:
    print("          one process: ms   run_chunks: ms a chunk        map_blocks: ms a block")
    print("chunk        run    loop    all  worker  over loop      all  worker  over run, worker's")
    graph, fresh = perceptron(), folders(parent)
    with connect(workers=1) as client:
        for size in SIZES:
            x = np.random.default_rng(1).normal(size=(rows(size), WIDTH)).astype(np.float32)
            runner = Runner(graph, **OPTIONS)
            runner.run({"x": x})
            run = alone(runner, x)
            count = int(min(400, max(16, given.seconds / (3 * run))))
            each = []
            for repeat in range(given.repeats + 1):
                few, more = (jobs(client, graph, x, number, parent, fresh, repeat) for number in (count // 4, count))
                if repeat:  # the first compiles
                    # The difference has no part that is the same for every job.
                    each.append((more - few) / (count - count // 4))
            (loop, _), (through, there), (block, apart) = np.median(each, axis=0) * 1e3
            run *= 1e3
            print(
                f"{size // KIB:5} KiB {run:7.2f} {loop:7.2f} {through:7.2f} {there:7.2f}  {through / loop - 1:9.1%}"
                f" {block:8.2f} {apart:7.2f}  {block / run - 1:8.1%} {apart / run - 1:8.1%}",
                flush=True,
            )


def jobs(
    client: Any,
    graph: dg.Graph,
    x: np.ndarray[Any, Any],
    count: int,
    parent: pathlib.Path,
    fresh: Iterator[pathlib.Path],
    repeat: int,
) -> np.ndarray[Any, Any]:
    """The seconds of all processes and of the worker for `count` chunks: in a loop, by run_chunks and by map_blocks."""
    cut = {"batch": len(x)}
    np.save(path := parent / f"x{count}.npy", np.tile(x, (count, 1)))
    out = next(fresh)

    def loop() -> None:
        job = job_of(Runner(graph, **OPTIONS), {"x": path}, out, cut, False)
        compute(job, [chunk for _, group in job.groups() for chunk in group])

    def through() -> None:
        run_chunks(graph, {"x": path}, out, chunks=cut, client=client, progress=False, **OPTIONS)

    def blocks() -> None:
        wait(client.persist(lazy))

    array = client.persist(client_blocks(x, count))
    wait(array)
    lazy = map_blocks(graph, {"x": array}, **OPTIONS)["y"]
    found = {}
    ways = (loop, through, blocks)
    for way in ways[repeat % 3 :] + ways[: repeat % 3]:
        found[way] = spent(client, way)
        shutil.rmtree(out, ignore_errors=True)
    return np.array([found[way] for way in ways])


def client_blocks(x: np.ndarray[Any, Any], count: int) -> Any:
    import dask.array as da
    from dask import delayed

    block = delayed(x, name=f"block-{len(x)}", traverse=False)
    return da.concatenate([da.from_delayed(delayed(np.copy)(block), x.shape, x.dtype) for _ in range(count)])


def wait(array: Any) -> None:
    import distributed

    distributed.wait(array)


def workers(given: argparse.Namespace, parent: pathlib.Path) -> None:
    size, fresh = SIZES[-1], folders(parent / "workers")
    count = 64 * given.workers
    np.save(parent / "x.npy", np.zeros((rows(size) * count, WIDTH), np.float32))
    graph, found = perceptron(HIDDEN), {1: [], given.workers: []}
    with connect(workers=1) as one, connect(workers=given.workers) as several:
        for repeat in range(given.repeats + 1):
            for number, client in ((1, one), (given.workers, several)):
                told = {"chunks": {"batch": rows(size)}, "client": client, "progress": False} | OPTIONS
                out = next(fresh)
                seconds = timed(lambda out=out, told=told: run_chunks(graph, {"x": parent / "x.npy"}, out, **told))
                shutil.rmtree(out)
                if repeat:
                    found[number].append(count / seconds)
    rates = {number: statistics.median(each) for number, each in found.items()}
    for number, rate in rates.items():
        print(f"{number} workers: {rate:.1f} chunks of {size // KIB} KiB a second")
    best = max(b / a for a, b in zip(*found.values(), strict=True))
    print(f"ratio: {rates[given.workers] / rates[1]:.2f}, at best {best:.2f}")


def scheduling(parent: pathlib.Path) -> None:
    """The scheduler's own constants, with tasks that find their chunks done."""
    graph = perceptron()
    np.save(parent / "x.npy", np.zeros((2000, WIDTH), np.float32))
    job = job_of(Runner(graph, **OPTIONS), {"x": parent / "x.npy"}, parent / "scheduling", {"batch": 1}, False)
    chunks = [chunk for _, group in job.groups() for chunk in group]
    bytes_each = len(pickle.dumps(chunks)) / len(chunks)
    with connect(workers=1) as client:
        begin = time.perf_counter()
        client.gather([client.submit(nothing, chunks[n : n + 1], pure=False) for n in range(len(chunks))])
        rate = len(chunks) / (time.perf_counter() - begin)
    print(f"scheduler: {rate:.0f} tasks a second, {bytes_each:.0f} bytes for each chunk")
    for seconds in (0.01, 0.1, 1.0):
        batch = max(1, int(TASK_SECONDS / seconds))
        needed = 1000 / max(TASK_SECONDS, seconds)
        hours = 1e7 * seconds / 1000 / 3600
        print(
            f"1,000 workers, 10,000,000 chunks of {seconds:g} s: {batch} in a task, {needed:.0f} tasks a second,"
            f" {bytes_each * 1000 / seconds / 1e6:.1f} MB/s, {hours:.2f} h"
        )


def nothing(chunks: Any) -> tuple[int, float]:
    return 0, float(len(chunks) * 0)


def timed(call: Any) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def alone(runner: Runner, x: np.ndarray[Any, Any]) -> float:
    """The seconds of the processor that a run takes in this process."""
    found = []
    for _ in range(9):
        begin = time.process_time()
        runner.run({"x": x})
        found.append(time.process_time() - begin)
    return statistics.median(found)


def spent(client: Any, call: Any) -> tuple[float, float]:
    """The seconds of the processor that a call takes here and on the workers together, and on the workers."""
    here, there = time.process_time(), sum(client.run(time.process_time).values())
    call()
    there = sum(client.run(time.process_time).values()) - there
    return time.process_time() - here + there, there


def main() -> None:
    parser = argparse.ArgumentParser(description="What a cluster costs, and what more workers gain.")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="how long a measurement takes, about")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "workers").mkdir()
        costs(given, pathlib.Path(folder))
        workers(given, pathlib.Path(folder))
        scheduling(pathlib.Path(folder))


if __name__ == "__main__":
    main()
