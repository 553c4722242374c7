"""Processes that are killed at any moment while they compile into the cache of shaders, compute and write files.

Every file that they leave is complete: old, new or missing.  The next process finds what it needs and computes the
right result.
"""

from __future__ import annotations

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import dmlgraph as dg
from campaigns.campaign import Campaign
from dmlgraph.devices.directml import library
from dmlgraph.devices.names import DeviceName

Array = np.ndarray[Any, Any]

# Sizes with small kernels, and with files that take several writes.
ROWS, COLUMNS = 64, 400
HEAVY = 3000
VERSIONS = (1, 2)
LATEST_KILL = 4.0  # seconds after the start
MOST_SECONDS = 240  # for a process that is not killed

# Statuses of a process that was asked to end: it had finished, it reports the interrupt, or the signal ended it.
ENDED = {signal.SIGINT: (0, 1, 130, -signal.SIGINT), signal.SIGKILL: (0, -signal.SIGKILL)}


def graph_of(version: int) -> dg.Graph:
    """A graph whose constants all hold its version; they are saved in files."""
    graph = dg.Graph("victim")
    x = graph.input("x", sizes=[1, 1, ROWS, COLUMNS], dtype="float32")
    constants = [graph.constant(f"k{k}", np.full((1, 1, ROWS, COLUMNS), version, np.float32)) for k in range(2)]
    graph.output("sum", dg.activation_softmax1(x, axes=[3]) + constants[1])
    graph.output("most", dg.reduce(dg.multiply(x, constants[1]), function="max", axes=[3]))
    graph.output("power", dg.tanh(x) * constants[0])
    return graph


def heavy() -> dg.Graph:
    """Products that take long without Python, so that the process ends while they run."""
    graph = dg.Graph("heavy")
    x = graph.input("x", sizes=[1, 1, HEAVY, HEAVY], dtype="float32")
    graph.output("y", dg.gemm(dg.gemm(dg.gemm(x, x), x), x))
    return graph


def numbers() -> Array:
    return np.random.default_rng(0).normal(size=(1, 1, ROWS, COLUMNS)).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Place:
    """The folder of a case."""

    folder: pathlib.Path
    device: DeviceName

    @property
    def document(self) -> pathlib.Path:
        return self.folder / "victim.yaml"

    @property
    def results(self) -> pathlib.Path:
        return self.folder / "results"

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-P", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {START}", *arguments],
            cwd=self.folder,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def environment(self) -> dict[str, str]:
        return os.environ | {"DMLGRAPH_CACHE_DIR": str(self.folder / "cache"), "PYTHONFAULTHANDLER": "1"} | LIBRARY


START = f"""
import pathlib
if sys.argv[1] == "save":
    sys.path.insert(0, {str(pathlib.Path(__file__).parent.parent)!r})
    from campaigns.kills import graph_of
    while True:
        for version in ({", ".join(map(str, VERSIONS))}):
            graph_of(version).save(sys.argv[2])
else:
    from dmlgraph.cli.commands import main
    main(sys.argv[1:])
"""

LIBRARY: dict[str, str] = {}  # the installed DirectML, because a case's cache has none
DEVICES: list[DeviceName] = ["cpu"]
try:
    LIBRARY[library.VARIABLE] = str(library.find_directml().path)
    DEVICES.append("directml:software")
except dg.DmlGraphError:
    pass


# What may be killed, and what must be right afterwards.


def check_results(place: Place) -> None:
    expected = {name: array for version in VERSIONS for name, array in expected_of(place.device, version).items()}
    for path in visible(place.results):
        version_of(place.device, path.stem, np.load(path))
        assert path.stem in expected, path


def check_picture(place: Place) -> None:
    for path in visible(place.folder, "picture.html"):
        assert path.read_text(encoding="utf-8").rstrip().endswith("</html>"), "half a page"


def check_trace(place: Place) -> None:
    for path in visible(place.folder, "trace.json"):
        json.loads(path.read_text(encoding="utf-8"))


def check_nothing(_: Place) -> None:
    """The process left no file."""


def check_document(place: Place) -> None:
    dg.load(place.document)
    for path in visible(place.folder, "*.npy"):
        array = np.load(path)
        assert array.shape == (1, 1, ROWS, COLUMNS)
        assert len(np.unique(array)) == 1, "half a file"


@dataclass(frozen=True, slots=True)
class Victim:
    arguments: Callable[[Place], list[str]]
    check: Callable[[Place], None]


VICTIMS = (
    Victim(lambda place: ["run", *running(place), "--output-dir", "results"], check_results),
    Victim(lambda place: ["run", *running(place), "--output-dir", "results"], check_results),
    Victim(lambda place: ["show", "victim.yaml", "-o", "picture.html"], check_picture),
    Victim(lambda place: ["bench", *running(place), "--repeats", "1", "--trace", "trace.json"], check_trace),
    Victim(lambda place: ["save", "victim.yaml"], check_document),
    Victim(lambda _: ["run", "heavy.yaml", "--device", "cpu", "--random", "0"], check_nothing),
    Victim(lambda _: ["bench", "heavy.yaml", "--device", "cpu", "--repeats", "1"], check_nothing),
    Victim(lambda _: ["diff", "heavy.yaml", "--device", "cpu"], check_nothing),
)


def running(place: Place) -> list[str]:
    return ["victim.yaml", "--device", place.device, "--input", "x=x.npy"]


def visible(folder: pathlib.Path, pattern: str = "*") -> list[pathlib.Path]:
    """The files except temporary ones, whose names begin with a dot."""
    return [path for path in folder.glob(pattern) if not path.name.startswith(".") and path.name != "x.npy"]


def expected_of(device: DeviceName, version: int) -> dict[str, Array]:
    key = device, version
    if key not in _expected:
        _expected[key] = graph_of(version).compile(device).run({"x": numbers()})
    return _expected[key]


_expected: dict[tuple[str, int], dict[str, Array]] = {}


def version_of(device: DeviceName, name: str, array: Array) -> int:
    """The version of the graph that computed this output."""
    found = [version for version in VERSIONS if np.array_equal(expected_of(device, version)[name], array)]
    assert found, f"output {name} is wrong"
    return found[0]


def one_case(seed: int) -> None:
    rng = random.Random(seed)
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as in a shell's background jobs, and inherited from them
        signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        place = Place(pathlib.Path(folder), rng.choice(DEVICES))
        np.save(place.folder / "x.npy", numbers())
        graph_of(VERSIONS[0]).save(place.document)
        heavy().save(place.folder / "heavy.yaml")
        for _ in range(rng.randint(1, 3)):
            kill_some(place, rng)
        survive(place)


def kill_some(place: Place, rng: random.Random) -> None:
    """Starts some processes, kills them at random moments, and checks the files that they leave."""
    victims = [rng.choice(VICTIMS) for _ in range(rng.randint(1, 3))]
    processes = [place.start(*victim.arguments(place)) for victim in victims]
    begin = time.monotonic()
    moments = sorted((rng.uniform(0, LATEST_KILL), number) for number in range(len(processes)))
    signals = {}
    for moment, number in moments:
        time.sleep(max(0.0, begin + moment - time.monotonic()))
        signals[number] = rng.choice([signal.SIGKILL, signal.SIGINT])
        processes[number].send_signal(signals[number])
    for number, (victim, process) in enumerate(zip(victims, processes, strict=True)):
        said = end_of(process, signals[number])
        expected = ENDED[signals[number]]
        assert process.returncode in expected, f"{_words(process)}: status {process.returncode}\n{said.decode()}"
        victim.check(place)


def _words(process: subprocess.Popen[bytes]) -> object:
    """The arguments that differ between processes."""
    assert isinstance(process.args, list)
    return process.args[4:]


def end_of(process: subprocess.Popen[bytes], sent: signal.Signals) -> bytes:
    """Waits for the end of a process that got a signal; returns its standard error.

    Python itself loses an interrupt that arrives in a finalizer, or in a module that swallows it: people press Ctrl-C
    again, and so this sends the signal again.
    """
    for again in (sent, sent, signal.SIGABRT):  # the last one makes Python print where it is
        try:
            return process.communicate(timeout=MOST_SECONDS / 4)[1]
        except subprocess.TimeoutExpired:
            process.send_signal(again)
    said = process.communicate()[1].decode()
    raise AssertionError(f"{_words(process)} does not end after {sent.name}\n{said}")


def survive(place: Place) -> None:
    """Runs the next process with the cache and the files that were left."""
    process = place.start(*VICTIMS[0].arguments(place))
    _, said = process.communicate(timeout=MOST_SECONDS)
    assert process.returncode == 0, said.decode()
    names = {path.stem for path in visible(place.results)}
    assert names == {"sum", "most", "power"}
    for path in visible(place.results):
        version_of(place.device, path.stem, np.load(path))


CAMPAIGN = Campaign(
    "kills", "processes that are killed while they compile, compute and write", one_case, hang_seconds=900
)
