"""A real job whose processes are killed: `dmlgraph map` over generated pictures.

Workers are killed at random while they work, and once the command itself, which has the scheduler.  Started again it
does what is missing.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import json
import pathlib
import random
import subprocess
import sys
import time
from typing import Any

import numpy as np
import psutil

import dmlgraph as dg

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
HEIGHT, WIDTH = 48, 64
PATIENCE = 300  # seconds without a result, on a machine that is very busy

Array = np.ndarray[Any, Any]


@dataclasses.dataclass(frozen=True)
class Job:
    """A graph of the examples and its inputs in files.

    Attributes:
        arguments: of `dmlgraph map`, without those about the cluster.
        inputs: for each chunk, by the beginning of its name: the inputs.
        dims: other sizes of the graph.
    """

    graph: pathlib.Path
    folder: pathlib.Path
    arguments: list[str]
    inputs: dict[str, dict[str, Array]]
    dims: dict[str, int]

    @property
    def out(self) -> pathlib.Path:
        return self.folder / "out"


def photos(folder: pathlib.Path, count: int, choose: random.Random) -> Job:
    """The photo normalisation over a folder of photos."""
    numbers = np.random.default_rng(choose.getrandbits(32))
    inputs = {}
    for number in range(count):
        photo = numbers.integers(0, 256, (1, 3, HEIGHT, WIDTH), np.uint8)
        path = folder / "photos" / f"{number % 7}" / f"{number:06}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, photo)
        inputs[path.stem] = {"photo": photo}
    dims = {"height": HEIGHT, "width": WIDTH, "row": 3 * WIDTH}
    arguments = ["--input", f"photo={folder / 'photos'}", "--dim", f"row={3 * WIDTH}"]
    return Job(EXAMPLES / "normalize_photo.yaml", folder, arguments, inputs, dims)


def digits(folder: pathlib.Path, count: int, choose: random.Random, batch: int = 100) -> Job:
    """The digits network over an array of pictures; the last chunk is smaller."""
    numbers = np.random.default_rng(choose.getrandbits(32))
    pictures = numbers.integers(0, 17, (count * batch - batch // 2, 1, 8, 8), np.uint8)
    np.save(folder / "pixels.npy", pictures)
    width = len(str(len(pictures)))
    begins = range(0, len(pictures), batch)
    inputs = {f"{begin:0{width}}": {"pixels": pictures[begin : begin + batch]} for begin in begins}
    arguments = ["--input", f"pixels={folder / 'pixels.npy'}", "--chunk", f"N={batch}"]
    return Job(EXAMPLES / "digits" / "digits.yaml", folder, arguments, inputs, {})


def start(job: Job, workers: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", "dmlgraph.cli", "map", str(job.graph), *job.arguments]
    command += ["--out", str(job.out), "--device", "cpu", "--workers", str(workers)]
    # Not in a folder with dmlgraph's sources, which the workers would import.
    return subprocess.Popen(command, cwd=job.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def done(job: Job) -> int:
    """How many results there are of the output that is written last."""
    return sum(1 for _ in (job.out / "results").glob("*/**/*.npy")) // max(
        1, len(list((job.out / "results").glob("*")))
    )


def wait(job: Job, process: subprocess.Popen[bytes], count: int) -> bool:
    """Waits until there are so many results; returns whether the process still runs."""
    last, since = -1, time.monotonic()
    while process.poll() is None:
        found = done(job)
        if found >= count:
            return True
        if found > last:
            last, since = found, time.monotonic()
        assert time.monotonic() < since + PATIENCE, f"{found} results, and no more"
        time.sleep(0.05)
    return False


def kill_a_worker(process: subprocess.Popen[bytes], choose: random.Random) -> int:
    """Ends a worker of a command at once; returns how many were killed."""
    workers = []
    with contextlib.suppress(psutil.Error):  # one that was killed before is not collected yet
        for each in psutil.Process(process.pid).children():
            if each.status() != psutil.STATUS_ZOMBIE and "spawn_main" in " ".join(each.cmdline()):
                workers.append(each)
    if not workers:
        return 0
    choose.choice(workers).kill()
    return 1


def survive(job: Job, workers: int, choose: random.Random, kills: int) -> None:
    """Runs a job, kills workers at random and the command once, starts it again, and checks what is there."""
    total = len(job.inputs)
    moments = sorted(choose.uniform(0.02, 0.9) for _ in range(kills))
    end = choose.uniform(0.3, 0.7)  # when the command is killed
    killed, restarted = 0, False
    process = start(job, workers)
    try:
        for moment in sorted([*moments, end]):
            if not wait(job, process, int(moment * total)):
                break
            if moment == end:
                process.kill()
                process.communicate()
                process, restarted = start(job, workers), True
            else:
                killed += kill_a_worker(process, choose)
        said = process.communicate(timeout=600 + total)[1].decode()
        assert process.returncode == 0, said
    finally:
        process.kill()
    assert restarted
    check(job, killed + workers)
    # Started again, it finds nothing to do, and starts no process for that.
    last = start(job, workers)
    assert f"{total}/{total} chunks" in last.communicate(timeout=PATIENCE)[1].decode()
    check(job, killed + workers)


def check(job: Job, interrupted: int) -> None:
    """Every result is there once and has the bits that this process computes; chunks were computed twice at most as
    often as a worker was interrupted."""
    graph = dg.load(job.graph)
    found: dict[str, dict[str, Array]] = collections.defaultdict(dict)
    for path in (job.out / "results").glob("*/**/*.npy"):
        output = path.relative_to(job.out / "results").parts[0]
        name = path.stem.rpartition("-")[0]
        assert output not in found[name], f"{name} is there twice"
        found[name][output] = np.load(path)
    assert found.keys() == job.inputs.keys()
    executables = {}
    for name, inputs in job.inputs.items():
        dims = job.dims or {"N": len(next(iter(inputs.values())))}
        key = tuple(dims.values())
        if key not in executables:
            executables[key] = graph.compile("cpu", dims=dims, threads=1)
        expected = executables[key].run(inputs)
        assert found[name].keys() == expected.keys()
        for output, array in expected.items():
            assert found[name][output].tobytes() == array.tobytes(), f"{output} of {name}"
    lines = [json.loads(line) for path in (job.out / "log").iterdir() for line in path.read_text("utf-8").splitlines()]
    assert len({line["chunk"] for line in lines}) == len(job.inputs)
    assert len(job.inputs) <= len(lines) <= len(job.inputs) + interrupted
    assert not (job.out / "failed").exists()
